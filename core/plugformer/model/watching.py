"""Looking at what the modules of a model put out, in the order of computation."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from torch import nn

from plugformer.interfaces import Attention, Head, PositionalEncoding

Look = Callable[[str, nn.Module, tuple[Any, ...], object], None]
"""Receives a module's path in the model, the module, the arguments of its call, and what it returned."""

_CONTRACTS: dict[type[nn.Module], tuple[str, ...]] = {
    Attention: ("attend",),
    Head: ("logits", "loss"),
    PositionalEncoding: ("embed", "rotate"),
}
"""Methods that compute what other modules compute in `forward`."""


@contextmanager
def watched(model: nn.Module, look: Look) -> Iterator[None]:
    """Inside, every output is looked at, that of inner modules first."""
    with ExitStack() as undo:
        for name, module in model.named_modules():
            handle = module.register_forward_hook(
                lambda module, arguments, output, name=name: look(name, module, arguments, output)
            )
            undo.callback(handle.remove)
            for interface, methods in _CONTRACTS.items():
                for method in methods if isinstance(module, interface) else ():
                    undo.enter_context(watched_method(module, method, name, look))
        yield


@contextmanager
def watched_method(module: nn.Module, method: str, name: str, look: Look) -> Iterator[None]:
    """Inside, what a method of this one module returns is looked at, under a name."""
    original = getattr(module, method)

    @wraps(original)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        output = original(*arguments, **keywords)
        look(name, module, arguments, output)
        return output

    with replaced(module, method, wrapper):
        yield


@contextmanager
def replaced(module: nn.Module, method: str, function: Callable[..., Any]) -> Iterator[None]:
    """Inside, a function stands in for a method of this one module."""
    original, own = getattr(module, method), method in module.__dict__
    module.__dict__[method] = function
    try:
        yield
    finally:
        module.__dict__.pop(method)
        if own:
            module.__dict__[method] = original
