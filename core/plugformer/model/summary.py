"""What a model consists of, what it costs, and what its modules return."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plugformer.interfaces import Attention, Batch, Head, Model, PositionalEncoding, evaluating
from plugformer.model.encoder import Memory
from plugformer.model.layer import Dropout

Look = Callable[[nn.Module, str, tuple[Any, ...], object], None]
"""Receives a module, its path in the model, the arguments of its call, and its output."""

_METHODS: dict[type[nn.Module], tuple[str, ...]] = {
    Attention: ("attend",),
    Head: ("logits", "loss"),
    PositionalEncoding: ("embed", "rotate"),
}
"""Methods that compute what other modules compute in `forward`."""


@contextmanager
def watched(model: nn.Module, look: Look) -> Iterator[None]:
    """A context that calls `look` with every output, inner modules first."""

    def looking(path: str, module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            output = method(*arguments, **keywords)
            look(module, path, arguments, output)
            return output

        return wrapper

    with ExitStack() as undo:
        for path, module in model.named_modules():
            methods = [name for kind, names in _METHODS.items() if isinstance(module, kind) for name in names]
            for name in ("forward", *methods):
                undo.enter_context(replaced(module, name, looking(path, module, getattr(module, name))))
        yield


@contextmanager
def replaced(module: nn.Module, method: str, function: Callable[..., Any]) -> Iterator[None]:
    """A context that replaces a method of one module."""
    before = module.__dict__.get(method)
    module.__dict__[method] = function
    try:
        yield
    finally:
        del module.__dict__[method]
        if before is not None:
            module.__dict__[method] = before


@dataclass(frozen=True)
class ModuleSummary:
    """One module.

    Attributes:
        path: Its path in the model.
        module: The name of its class.
        shape: Shape of its output; empty if that is no tensor.
        parameters: Number of its parameters, each counted once in the whole model.
        flops: Floating-point operations of a forward pass; a multiplication and an addition are two.
    """

    path: str
    module: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


def summarize(model: Model, batch: Batch) -> list[ModuleSummary]:
    """Runs a forward pass and returns the model and its modules, down to the sublayers of each layer.

    Args:
        model: Any model; it is left in the mode that it was in.
        batch: The batch that shapes and operations are given for.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    flops: Counter[str] = Counter()
    counter = FlopCounterMode(display=False)

    def counted(path: str, module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            before = counter.get_total_flops()
            output = method(*arguments, **keywords)
            flops[path] += counter.get_total_flops() - before
            tensor = output.hidden if isinstance(output, Memory) else output
            if isinstance(tensor, Tensor) and not isinstance(module, PositionalEncoding):
                shapes.setdefault(path, tuple(tensor.shape))
            return output

        return wrapper

    shown = _shown(model)
    # The counter does not know the CPU's fused attention; matrix products count the same everywhere.
    with evaluating(model), sdpa_kernel(SDPBackend.MATH), ExitStack() as undo:
        for path, module in shown:
            attention, head = isinstance(module, Attention), isinstance(module, Head)
            for name in ("project", "attend") if attention else ("logits",) if head else ("forward",):
                undo.enter_context(replaced(module, name, counted(path, module, getattr(module, name))))
        with counter:
            shapes[""] = tuple(model.logits(batch).shape)
    flops[""] = counter.get_total_flops()
    return [
        ModuleSummary(
            path=path,
            module=type(module).__name__,
            shape=shapes.get(path, ()),
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            flops=flops[path],
        )
        for path, module in shown
    ]


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
