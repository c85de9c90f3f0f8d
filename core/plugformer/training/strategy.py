"""How a model is trained: its number formats, compiled layers, and the copies that processes hold."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from plugformer.configuration.task import TrainingSettings
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import ConfigurationError, RegistryError, described
from plugformer.evaluation.predictor import LOWER
from plugformer.interfaces import Batch, Loss, Model
from plugformer.model.layer import Layer

LONG = 2000
"""Updates from which a training on a GPU is compiled: compiling takes as long as some hundred of them."""

Objective = Callable[[Model, Batch], Loss]
"""Computes a batch's loss by a model's methods."""


def precision(settings: TrainingSettings, device: torch.device) -> str:
    """Returns `float32`, or what a task mixes with it; ConfigurationError if the device cannot."""
    if settings.precision == "fp16" and device.type == "cpu":
        raise ConfigurationError("training.precision: fp16 needs a GPU; choose bf16 or float32")
    return settings.precision


class TrainingStrategy:
    """A model as the processes that train it hold it: each the whole, unless a subclass shares it out.

    Methods are collectives: all processes call them in the same order, and equally often.

    Attributes:
        device: Of this process.
        scaler: Scales losses for float16, whose smallest numbers are large; else it does nothing.
        model: Computes losses and gradients.
        trained: The model whose parameters are updated.
    """

    def __init__(
        self, model: Model, settings: TrainingSettings, processes: Processes = SINGLE_PROCESS
    ) -> None:
        self.device = processes.device
        self._precision = precision(settings, self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self._precision == "fp16")
        torch.set_float32_matmul_precision(settings.float32_matmul_precision)
        self.trained = model
        self.model: nn.Module = self._shared(model, processes)

    def _shared(self, model: Model, processes: Processes) -> nn.Module:
        """Returns a module that computes the model's loss and exchanges gradients."""
        model.to(self.device)
        if processes.count == 1:
            return model
        return DistributedDataParallel(model, None if self.device.type == "cpu" else [self.device])

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which the model computes in the task's precision."""
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, LOWER[self._precision])

    def prepare(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Returns the optimizer, made for the parameters of `trained`, prepared to make steps on them."""
        if not self.scaler.is_enabled():
            return optimizer
        return cast("torch.optim.Optimizer", ScaledOptimizer(optimizer, self.scaler))

    def loss(self, batch: Batch, objective: Objective | None = None) -> Loss:
        """Returns the loss of a batch of this process; as the model gives it, or by another objective."""
        given = {} if objective is None else {"objective": objective}
        with self.autocast():
            return cast("Loss", self.model(batch, **given))

    def gather(self, state: Any) -> Any:
        """Returns the state of a callback with full tensors."""
        return state

    def scatter(self, state: Any) -> Any:
        """Returns the state of a callback as this process keeps it, from one with full tensors."""
        return state

    def gradient_sync(self, *, last: bool) -> AbstractContextManager[object]:
        """A context for a batch: gradients add up, and with the last become the processes' mean.

        Gradients are sent while others are computed: with several processes, the loss of the last batch has
        to depend on every parameter, or torch refuses the next batch.
        """
        if last or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return self.model.no_sync()

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

    @contextmanager
    def temporary_values(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside, parameters have other values, given by name; RegistryError if they have none such."""
        parameters = dict(self.trained.named_parameters())
        for name, value in values.items():
            if name not in parameters or parameters[name].shape != value.shape:
                returned = f"a callback's evaluated_parameters returns {name!r} of shape {tuple(value.shape)}"
                raise RegistryError(f"{returned}, expected parameters of the model, by name, of their shapes")
        kept = {name: parameters[name].detach().clone() for name in values}
        _assign(parameters, values)
        self.unshard()
        try:
            yield
        finally:
            _assign(parameters, kept)
        self.unshard()  # a collective: only if all processes have come this far


def _assign(parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value)


class ScaledOptimizer:
    """An optimizer whose steps a gradient scaler makes, or leaves out where gradients are not finite."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
        self._optimizer = optimizer
        self._scaler = scaler

    def __getattr__(self, name: str) -> Any:
        """Returns what the optimizer has."""
        return getattr(self._optimizer, name)

    def step(self) -> None:
        """Makes a step."""
        self._scaler.step(self._optimizer)
        self._scaler.update()


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
