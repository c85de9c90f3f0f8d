"""Sees what the modules of a model return while it computes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from torch import nn

from plugformer.interfaces import Head, PositionalEncoding

Look = Callable[[nn.Module, str, tuple[Any, ...], object], None]
"""Receives a module, its path in the model, the arguments of its call, and its output."""

_METHODS: dict[type[nn.Module], tuple[str, ...]] = {
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
