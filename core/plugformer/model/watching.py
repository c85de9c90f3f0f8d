"""Sees what the modules of a model return while it computes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import Any

from torch import nn
from torch.utils.checkpoint import noop_context_fn

from plugformer.interfaces import Attention, Head, PositionalEncoding

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


def repetition(
    module: nn.Module,
) -> Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]:
    """Returns the `context_fn` of a checkpoint in which a module computes.

    Attentions whose `attend` is replaced compute in the same way again in the backward pass, even if it has
    been put back by then; the replacement's attribute `again`, if it has one, takes its place.
    """
    attentions = [inner for inner in module.modules() if isinstance(inner, Attention)]
    again = {
        inner: getattr(inner.attend, "again", inner.attend) for inner in attentions if "attend" in vars(inner)
    }

    @contextmanager
    def repeating() -> Iterator[None]:
        with ExitStack() as undo:
            for inner, attend in again.items():
                undo.enter_context(replaced(inner, "attend", attend))
            yield

    return (lambda: (nullcontext(), repeating())) if again else noop_context_fn


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
