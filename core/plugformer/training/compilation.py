"""`training.compile`: layers compiled for training, the time that takes, and what to do if it fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from plugformer.errors import ConfigurationError, described
from plugformer.hooks.specification import Update, hookimpl
from plugformer.model.layer import Layer

VARIANTS = 64
"""Compiled forms of a layer at most: by parts, masks, and sizes of one. Others run uncompiled."""


def compile_layers(model: nn.Module) -> None:
    """Has the layers of a model computed by torch.compile while it is trained.

    Layers are an argument of one function: those with the same parts share the compiled code, so do copies
    of the model, and no module is wrapped.

    Args:
        model: A model in place.
    """
    compiled = torch.compile(Layer.compute, dynamic=True)
    limited = torch._dynamo.config.patch(recompile_limit=VARIANTS)(compiled)
    for layer in model.modules():
        if isinstance(layer, Layer):
            layer.compiled = limited


class CompileTime:
    """Observes how long the first update takes, which compiles the layers.

    Args:
        notify: Receives a line about it.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify: Callable[[str], None] | None = notify

    @hookimpl
    def step_ended(self, update: Update) -> None:
        """Reports the first update."""
        if self._notify is not None:
            self._notify(
                f"training.compile: update {update.step}, in which layers are compiled, took "
                f"{update.seconds:.0f} s; masks of another kind in one of the next updates compile again"
            )
        self._notify = None


@contextmanager
def compiler_errors_explained(*, compiled: bool) -> Iterator[None]:
    """Inside, errors of the compiler say how to train without it.

    Args:
        compiled: Whether the task wants layers compiled; if not, nothing is changed.

    Raises:
        ConfigurationError: The compiler failed.
    """
    if not compiled:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except TorchDynamoException as error:
        raise ConfigurationError(
            f"training.compile: torch.compile failed: {described(error)}\ntrain with training.compile=false"
        ) from error
