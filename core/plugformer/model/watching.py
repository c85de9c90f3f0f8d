"""Looking at what the modules of a model return, in the order of computation."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from torch import nn

from plugformer.interfaces import Attention, Head, PositionalEncoding

Look = Callable[[str, nn.Module, tuple[Any, ...], object], None]
"""Receives a module's path in the model, the module, the arguments of its call, and what it returned."""

_METHODS: dict[type[nn.Module], tuple[str, ...]] = {
    Attention: ("attend",),
    Head: ("logits", "loss"),
    PositionalEncoding: ("embed", "rotate"),
}
"""Methods that compute what other modules compute in `forward`."""


@contextmanager
def watched(model: nn.Module, look: Look) -> Iterator[None]:
    """Inside, every output is looked at, that of inner modules first."""

    def looking(path: str, module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            output = method(*arguments, **keywords)
            look(path, module, arguments, output)
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
    """Inside, a function stands in for a method of this one module."""
    before = module.__dict__.get(method)
    module.__dict__[method] = function
    try:
        yield
    finally:
        del module.__dict__[method]
        if before is not None:
            module.__dict__[method] = before
