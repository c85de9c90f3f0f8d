"""What a model consists of and costs: its modules with shapes, parameters and floating-point operations."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plugformer.interfaces import Attention, PositionalEncoding
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Model, evaluating
from plugformer.model.dropout import Dropout
from plugformer.model.encoder import Memory
from plugformer.model.watching import replaced, watched


@dataclass(frozen=True)
class Row:
    """One module.

    Attributes:
        path: Its path in the model.
        module: The name of its class.
        shape: Shape of its output; empty where that is no tensor.
        parameters: Its own and its children's, each counted once in the whole model.
        flops: Floating-point operations of a forward pass; a multiplication and an addition are two.
    """

    path: str
    module: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


def summarize(model: Model, batch: Batch) -> list[Row]:
    """Runs a forward pass and returns the model and its modules, down to the sublayers of each layer.

    Args:
        model: Any model; it is left in the mode that it was in.
        batch: The batch that shapes and operations are given for.
    """
    shapes, body, head, attentions = _measure(model, batch)
    flops = _flops_by_path(model, body) | attentions | {"head": head.get_total_flops()}
    flops[""] = body.get_total_flops() + flops["head"]
    shapes[""] = shapes["head"]
    return [
        Row(
            path=path,
            module=type(module).__name__,
            shape=shapes.get(path, ()),
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            flops=flops.get(path, 0),
        )
        for path, module in _shown(model)
    ]


def _measure(
    model: Model, batch: Batch
) -> tuple[dict[str, tuple[int, ...]], FlopCounterMode, FlopCounterMode, Counter[str]]:
    """Runs a forward pass; returns shapes of outputs, and counts of the stacks, the head and attentions."""
    shapes: dict[str, tuple[int, ...]] = {}
    body, head = FlopCounterMode(display=False), FlopCounterMode(display=False)
    attentions: Counter[str] = Counter()

    def note(path: str, module: nn.Module, _: object, output: object) -> None:
        tensor = output.hidden if isinstance(output, Memory) else output
        if isinstance(tensor, Tensor) and not isinstance(module, PositionalEncoding):
            shapes.setdefault(path, tuple(tensor.shape))

    # The counter does not know the CPU's fused attention; matrix products count the same everywhere.
    with evaluating(model), sdpa_kernel(SDPBackend.MATH):
        with watched(model, note), _counting(model, body, attentions), body:
            hidden = model.hidden(batch)
        with head:
            shapes["head"] = tuple(model.head.logits(hidden, model.targets(batch)[1]).shape)
    return shapes, body, head, attentions


@contextmanager
def _counting(model: Model, counter: FlopCounterMode, found: Counter[str]) -> Iterator[None]:
    """Inside, what attentions compute is added up by path: the counter sees calls of `forward` alone."""

    def counted(path: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def wrapper(*arguments: Any) -> Any:
            before = counter.get_total_flops()
            output = method(*arguments)
            found[path] += counter.get_total_flops() - before
            return output

        return wrapper

    with ExitStack() as undo:
        for path, module in model.named_modules():
            for name in ("project", "attend") if isinstance(module, Attention) else ():
                undo.enter_context(replaced(module, name, counted(path, getattr(module, name))))
        yield


def _flops_by_path(model: Model, counter: FlopCounterMode) -> dict[str, int]:
    """Returns the counts of each module of the stacks."""
    # The counter names modules after the class of the outermost one called: here the stacks, not the model.
    stacks = {type(stack).__name__: path for path, stack in model.named_children() if path != "head"}
    flops = {}
    for name, counts in counter.get_flop_counts().items():
        stack, dot, rest = name.partition(".")
        flops[stacks.get(stack, stack) + dot + rest] = sum(counts.values())
    return flops


def _shown(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Returns the model, its stacks, layers and their sublayers: what a task file can name, and no deeper."""
    return [
        (path, module)
        for path, module in model.named_modules()
        if path.count(".") <= 3
        and not path.startswith(("encoder.position.", "decoder.position."))
        and not isinstance(module, nn.ModuleList | Dropout | nn.Identity)
        and not path.endswith(".residual")
    ]
