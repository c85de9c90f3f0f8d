"""Observing a model: what its attentions record while it computes. Nothing is paid when nobody looks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, NamedTuple, cast

from torch import Tensor, nn

from plugformer.interfaces import Attention, Model, Scope


class Place(NamedTuple):
    """Where an attention stands in a model.

    Attributes:
        stack: The stack that it belongs to.
        layer: Number of the layer, from 0 as in task files.
        kind: Whether it reads its own sequence, or the encoder's output.
    """

    stack: str
    layer: int
    kind: Literal["self", "cross"]


class Record(NamedTuple):
    """A tensor that an attention recorded.

    Attributes:
        place: Which attention.
        name: What it calls the tensor; "weights" for those of a softmax.
        value: The tensor as it was used; weights are (batch, maps, query, key).
    """

    place: Place
    name: str
    value: Tensor


def attentions(model: Model) -> dict[Place, Attention]:
    """Returns the attentions of a model by their places: in the order in which they compute."""
    found = {}
    for name, stack in model.stacks.items():
        for number, layer in enumerate(cast("Sequence[nn.Module]", stack.layers)):
            found[Place(name, number, "self")] = cast("Attention", layer.attention)
            if (crossing := getattr(layer, "cross_attention", None)) is not None:
                found[Place(name, number, "cross")] = crossing
    return found


@contextmanager
def observing(model: Model) -> Iterator[list[Record]]:
    """Inside, what the attentions of a model record is collected, in the order of computation.

    An observed attention takes its plain path (`Scope.observed`) and records the weights that it uses; one
    that keeps none, as a linear attention, records nothing. Each call of the model adds to the records; of
    incremental decoding, each step does.

    Args:
        model: Any model, in any mode; it is not changed.
    """
    records: list[Record] = []
    observers: dict[nn.Module, dict[int, list[_Observer]]] = {}
    for place in attentions(model):
        layer = getattr(model, place.stack).layers[place.layer]
        observers.setdefault(layer, {}).setdefault(place.layer, []).append(_Observer(place, records))
    with ExitStack() as hooks:
        for layer, calls in observers.items():
            hooks.enter_context(_removing(layer.register_forward_pre_hook(_watch(list(calls.values())))))
        yield records


@dataclass(frozen=True)
class _Observer:
    """Notes what one attention records."""

    place: Place
    records: list[Record]

    def record(self, name: str, value: Tensor) -> None:
        self.records.append(Record(self.place, name, value))


def _watch(
    calls: Sequence[Sequence[_Observer]],
) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a hook that gives each scope of a layer's call its observer.

    The layers of a stack share one scope, and a scope does not know the layer: each gets a copy of its own. A
    decoder layer takes two, of self-attention and of cross-attention, in this order.

    Args:
        calls: The observers of each call in a pass: several where one layer stands in several places.
    """
    turns = cycle(calls)

    def hook(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001 (torch's signature)
        remaining = iter(next(turns))
        return tuple(
            each.observed_by(next(remaining)) if isinstance(each, Scope) else each for each in inputs
        )

    return hook


@contextmanager
def _removing(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()
