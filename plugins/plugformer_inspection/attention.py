"""What the attentions of a model record while it computes, and what they weigh when it reads a text.

Nothing is paid when nobody looks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import (
    BEGIN,
    END,
    UNKNOWN,
    Attention,
    AttentionContext,
    Level,
    Model,
    Observer,
    Tokenizer,
    evaluating,
)
from plugformer.runs import TrainedModel

_SPECIAL = {UNKNOWN: "<unknown>", BEGIN: "<begin>", END: "<end>"}


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

    An observed attention takes its plain path (`AttentionContext.observed`) and records the weights that it
    uses. A linear attention has no weights and records nothing. Each call of the model adds to the records,
    and so does each step of incremental decoding.

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
            hooks.callback(layer.register_forward_pre_hook(_watch(list(calls.values()))).remove)
        yield records


@dataclass(frozen=True)
class _Observer:
    """Notes what one attention records, for whoever else looks as well.

    Attributes:
        place: Which attention.
        records: Where it is noted.
        outer: Who looked already.
    """

    place: Place
    records: list[Record]
    outer: Observer | None = None

    def record(self, name: str, value: Tensor) -> None:
        self.records.append(Record(self.place, name, value))
        if self.outer is not None:
            self.outer.record(name, value)


def _watch(
    calls: Sequence[Sequence[_Observer]],
) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a hook that gives each context of a layer's call its observer.

    The layers of a stack share one context, which does not know the layer, so each gets its own copy. A
    decoder layer takes two contexts: of self-attention, then of cross-attention.

    Args:
        calls: The observers of each call in a pass: several where one layer stands in several places.
    """
    turns = cycle(calls)

    def hook(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001 (torch's signature)
        remaining = iter(next(turns))
        return tuple(
            each.observed_by(replace(next(remaining), outer=each.observer))
            if isinstance(each, AttentionContext)
            else each
            for each in inputs
        )

    return hook


@dataclass(frozen=True)
class AttentionView:
    """What one attention did with a text.

    Attributes:
        place: Where it stands.
        component: Name of its class.
        query: Tokens that read.
        key: Tokens that are read.
        weights: How much of what a query reads comes from each key, of every softmax map (head); each row
            sums to 1. None of an attention that records no such weights.
    """

    place: Place
    component: str
    query: list[str]
    key: list[str]
    weights: Float[Tensor, "maps query key"] | None


@dataclass(frozen=True)
class Inspection:
    """What a model made of a text, and how its attentions read meanwhile.

    Attributes:
        text: The input.
        output: The model's answer: a text, or a label.
        attentions: The encoder's, then layer by layer the decoder's self-attention and cross-attention. The
            decoder reads BEGIN and the model's own output; each row of its weights belongs to the step that
            writes the token after the one named.
    """

    text: str
    output: str
    attentions: list[AttentionView]


def inspect_attention(trained: TrainedModel, text: str) -> Inspection:
    """Lets a model answer a text and returns what its attentions weighed.

    Raises:
        DataError: The text is no Unicode.
        LengthError: The text is longer than the model can process, and the task does not truncate.
    """
    model, vocabularies = trained.model, trained.vocabularies
    batch, output = trained.with_answer(text)
    with evaluating(model), observing(model) as records:
        model.hidden(batch)
    source = _spelled(vocabularies.source, batch.source.ids.flatten().tolist())
    read = batch.target.ids.flatten().tolist()
    generated = vocabularies.task_type.level is Level.NEXT_TOKEN
    target = _spelled(vocabularies.target, read[:-1] if generated else read)
    sides = {"encoder": source, "decoder": target}
    views = [
        AttentionView(
            place,
            type(attention).__name__,
            query := sides[place.stack],
            key := source if place.kind == "cross" else query,
            _weights(records, place, (len(query), len(key))),
        )
        for place, attention in attentions(model).items()
    ]
    return Inspection(text, output, views)


def _weights(
    records: Sequence[Record], place: Place, shape: tuple[int, int]
) -> Float[Tensor, "maps query key"] | None:
    """Returns the weights that an attention recorded between all tokens; several make one."""
    found = [
        record.value[0].float().cpu()
        for record in records
        if record.place == place and record.name == "weights"
        if record.value.dim() == 4 and record.value.shape[2:] == shape
    ]
    return torch.cat(found) if found else None


def _spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns the spellings of tokens, special ones by one name in all vocabularies."""
    return [_SPECIAL.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]
