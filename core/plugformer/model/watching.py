"""Looking at what the modules of a model put out, in the order of computation."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, distributed, nn

from plugformer.interfaces import Attention, FeedForward, Head, Norm, PositionalEncoding, Residual
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Model, evaluating

Look = Callable[[str, nn.Module, tuple[Any, ...], object], None]
"""Receives a module's path in the model, the module, the arguments of its call, and what it returned."""

_CONTRACTS: dict[type[nn.Module], tuple[str, ...]] = {
    Attention: ("attend",),
    Head: ("logits", "loss"),
    PositionalEncoding: ("embed", "rotate"),
}
"""Methods that compute what other modules compute in `forward`."""

_SHAPE_KEPT = (Attention, FeedForward, Norm, PositionalEncoding, Residual)
"""Components whose outputs have the shape of their first input."""


class _Found(Exception):  # noqa: N818 (it ends a computation, and is caught here)
    """Carries a module, and what is wrong with its output."""


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


def first_misshapen(model: Model, batch: Batch) -> tuple[nn.Module, str] | None:
    """Computes a batch again and returns the first component whose output has a wrong shape, and its fault.

    Args:
        model: Its parameters do not change.
        batch: With targets or, as for predictions, without.
    """
    if distributed.is_initialized():  # other processes would have to compute with this one
        return None

    def look(_: str, module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
        if isinstance(module, _SHAPE_KEPT) and (problem := unlike(output, arguments[0])):
            raise _Found(module, problem)

    try:
        with evaluating(model), torch.compiler.set_stance("force_eager"), watched(model, look):
            model(batch)
    except _Found as found:
        module, problem = found.args
        return module, problem
    except KeyboardInterrupt:
        raise
    except BaseException:  # the same as before, SystemExit included: until then all shapes were right
        return None
    return None


def unlike(output: object, given: Tensor) -> str:
    """Returns the mismatch of an output that must have its input's shape and type, or an empty string."""
    if not isinstance(output, Tensor):
        return f"it returns {type(output).__name__}, expected a tensor"
    if output.shape != given.shape:
        return f"it returns the shape {tuple(output.shape)}, expected {tuple(given.shape)}"
    return ""


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
