"""How a model is trained: its number formats, compiled layers, and the copies that processes hold."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import cast

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from torch import Tensor, nn

from plugformer.configuration.task import TrainingSettings
from plugformer.errors import ConfigurationError, described
from plugformer.interfaces import Batch, Hook, Loss, Model
from plugformer.model.layer import Layer
from plugformer.runs.checkpoint import Stateful

LONG = 2000
"""Updates from which a training on a GPU is compiled: compiling takes as long as some hundred of them."""

Objective = Callable[[Model, Batch], Loss]
"""Computes a batch's loss by a model's methods."""


def precision(settings: TrainingSettings) -> str:
    """Returns `float32`, or what is mixed with it: the task's choice, or else that of `accelerate launch`."""
    name = settings.precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if name == "fp16" and PartialState().device.type == "cpu":
        raise ConfigurationError("training.precision: fp16 needs a GPU; choose bf16 or float32")
    return "float32" if name == "no" else name


def accelerator(settings: TrainingSettings) -> Accelerator:
    """Returns an Accelerator with this process's device and a task's precision."""
    wanted = precision(settings)
    # Of both, else that of an earlier training in this process would stay.
    AcceleratorState._reset_state()
    torch.set_float32_matmul_precision(settings.float32_matmul_precision)
    return Accelerator(mixed_precision="no" if wanted == "float32" else wanted)


class TrainingStrategy:
    """A model as the processes that train it hold it: each the whole, unless a plugin derives another way.

    Methods are collectives: all processes call them in the same order, and equally often.

    Attributes:
        accelerator: Knows this process's device and number formats.
        model: Computes losses and gradients.
        trained: The model whose parameters are updated.
    """

    accelerator: Accelerator
    model: nn.Module
    trained: Model

    def __init__(self, model: Model, settings: TrainingSettings) -> None:
        self.accelerator = accelerator(settings)
        self.model = self.accelerator.prepare(model)
        self.trained = model

    def prepare(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Returns the optimizer, made for the parameters of `trained`, prepared to make steps on them."""
        return cast("torch.optim.Optimizer", self.accelerator.prepare(optimizer))

    def loss(self, batch: Batch, objective: Objective | None = None) -> Loss:
        """Returns the loss of a batch of this process; as the model gives it, or by another objective."""
        given = {} if objective is None else {"objective": objective}
        return cast("Loss", self.model(batch, **given))

    def sharing_out(self, hook: Hook) -> Stateful:
        """Returns a hook's `Stateful`, whose saved state covers the whole model."""
        return hook

    @contextmanager
    def exchanging(self, *, last: bool) -> Iterator[None]:
        """A context for a batch: gradients add up, and with the last become the processes' mean.

        Raises:
            ConfigurationError: Several processes train, and a loss does not depend on a parameter: gradients
                are sent while others are computed, and what is sent together would never be complete.
        """
        with nullcontext() if last else self.accelerator.no_sync(self.model):
            yield
        if last and self.model is not self.trained:
            for name, parameter in self.trained.named_parameters():
                if parameter.requires_grad and parameter.grad is None:
                    raise ConfigurationError(
                        f"the loss does not depend on the parameter {name}, expected every one with several "
                        "processes: let its module take part in each forward pass, if need be times zero, "
                        "freeze it with the hook `freeze`, or train in one process"
                    )

    def reduce_norm(self, norm: Tensor) -> Tensor:
        """Returns the norm of all gradients, from that of `model`'s."""
        return norm

    def unshard(self) -> None:
        """Copies the parameters of all processes into the full model."""

    def shard_from_full(self) -> None:
        """Takes the parameters over from the full model, which has been given others."""

    @contextmanager
    def full_model(self) -> Iterator[Model]:
        """Inside, each process has the full model, up to date and on its device."""
        yield self.trained


def compiles(settings: TrainingSettings, device: torch.device, steps: int) -> bool:
    """Returns whether a training of so many updates is compiled, by default a long one on a GPU."""
    if settings.compile == "auto":
        return device.type == "cuda" and steps >= LONG
    return settings.compile


def compile_model(model: Model, device: torch.device, *, automatic: bool = False) -> None:
    """Has layers, and on a GPU the loss, computed by torch.compile while a model is trained.

    Layers of one form share code. There is code for each shape of a batch; after 64 forms and shapes, others
    run uncompiled; so does what cannot be compiled, with a warning, where nobody asked for it (`automatic`).
    """
    limited = torch._dynamo.config.patch(recompile_limit=64, suppress_errors=automatic)
    compiled = limited(torch.compile(Layer.compute, dynamic=False))
    for layer in model.modules():
        if isinstance(layer, Layer):
            layer.compiled = compiled
    if device.type != "cpu":  # on a CPU the loss is computed in pieces, of the real targets alone
        model.compiled_loss = limited(torch.compile(type(model.head).loss, dynamic=False))


@contextmanager
def compiler_errors_explained() -> Iterator[None]:
    """Inside, errors of torch.compile are a ConfigurationError, which says how to train without it."""
    try:
        yield
    except RuntimeError as error:
        if all(base.__name__ != "TorchDynamoException" for base in type(error).__mro__):
            raise
        raise ConfigurationError(
            f"training.compile: torch.compile failed: {described(error)}\ntrain with training.compile=false"
        ) from error
