"""Fully sharded data parallelism: each process keeps a shard of every parameter, gradient and moment."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from plugformer.configuration.task import TrainingSettings
from plugformer.distributed import Processes
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Model
from plugformer.model.layer import Layer
from plugformer.runs.store import own_tensors
from plugformer.training.strategy import TrainingStrategy


class Sharded(TrainingStrategy):
    """Each process has a shard of each parameter; the parameters of a layer are gathered while it computes.

    ZeRO, Rajbhandari et al. 2020, section 5: https://arxiv.org/abs/1910.02054, with torch's `fully_shard`.
    Parameters outside of layers, for example embeddings and the head, are gathered for a whole pass.
    Gradients are exchanged after every batch, so that no process ever has all of them.

    Decoding, with another number of passes in each process, needs the full model. It is in main memory, and
    on the device while it is used.

    `torch.distributed.checkpoint.state_dict` refuses tied parameters and optimizers without tensors, so that
    tensors are gathered and sharded one by one. A copy of `model` is trained.

    Raises:
        ConfigurationError: A parameter cannot be sharded, or the precision is float16.
    """

    def __init__(self, model: Model, settings: TrainingSettings, processes: Processes) -> None:
        if numbers := [name for name, parameter in model.named_parameters() if parameter.dim() == 0]:
            raise ConfigurationError(
                f"training.shard: the parameter {numbers[0]} is a single number and cannot be sharded: give "
                "it the shape (1,) in its component, or set training.shard to false"
            )
        if settings.precision == "fp16":
            raise ConfigurationError(
                "training.shard: the gradients of sharded parameters cannot be scaled, which fp16 needs; "
                "set training.precision to bf16 or float32"
            )
        self._whole = model
        self._processes = processes
        super().__init__(deepcopy(model), settings, processes)

    def _shared(self, model: Model, processes: Processes) -> nn.Module:
        mesh = init_device_mesh(self.device.type, (processes.count,))
        layers = [module for module in model.modules() if isinstance(module, Layer)]
        for unit in [*layers, model]:
            part = fully_shard(unit, mesh=mesh)
            # PyTorch 2.8's Gloo returns a sum when asked for an average: let torch divide a sum itself.
            part.set_force_sum_reduction_for_comms(self.device.type == "cpu")
        model.register_forward_pre_hook(_agreeing_on_buffers)
        return model

    def prepare(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Returns the prepared optimizer; all processes save its full state together, the main one has it."""
        optimizer.register_state_dict_post_hook(self._gathered)
        optimizer.register_load_state_dict_pre_hook(_spread)
        return optimizer

    def gather(self, state: Any) -> Any:
        """Returns the state of a callback with full tensors."""
        return _changed(state, lambda _, value: _joined(value))

    def scatter(self, state: Any) -> Any:
        """Returns the state of a callback in which a tensor with a parameter's name is sharded like it."""
        parameters = dict(self.model.named_parameters())
        return _changed(state, lambda name, value: _part(value, parameters.get(str(name))))

    def reduce_norm(self, norm: Tensor) -> Tensor:
        """Returns the norm over the shards of all processes."""
        whole: Tensor = _joined(norm)
        return whole

    def unshard(self) -> None:
        """Copies the shards of all processes into the full model."""
        whole = self._whole.state_dict()
        with self._processes.peer_failure_as_error():
            for name, part in own_tensors(self.model).items():
                whole[name].copy_(_joined(part))

    def shard_from_full(self) -> None:
        """Copies the shards of this process out of the full model."""
        parts = self.model.state_dict()
        for name, tensor in own_tensors(self._whole).items():
            parts[name].copy_(_part(tensor, parts[name]))

    @contextmanager
    def full_model(self) -> Iterator[Model]:
        """Yields the full model."""
        self.unshard()
        self._whole.to(self.device)
        try:
            yield self._whole
        finally:
            self._whole.to("cpu")

    def _gathered(self, _: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
        """Returns an optimizer's state with full tensors; only the main process has any."""

        def joined(_: object, value: object) -> object:
            whole = _joined(value).cpu() if isinstance(value, DTensor) else value
            return whole if self._processes.main else None

        with self._processes.peer_failure_as_error():
            return saved | {"state": _changed(saved["state"], joined)}


def _changed(value: Any, change: Callable[[object, object], object], name: object = None) -> Any:
    """Returns nested mappings and sequences with changed leaves; `change` gets the last key and a leaf."""
    if isinstance(value, Mapping):
        return {key: _changed(item, change, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_changed(item, change, name) for item in value)
    return change(name, value)


def _spread(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """Returns an optimizer's state with shards of those tensors that have the shape of their parameters."""
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = saved["state"]

    def parts(number: int, parameter: Tensor) -> Any:
        return _changed(states[number], lambda _, value: _part(value, parameter))

    pairs = zip(numbers, parameters, strict=True)
    return saved | {"state": {number: parts(number, each) for number, each in pairs if number in states}}


def _part(value: Any, parameter: Tensor | None) -> Any:
    """Returns this process's shard of a full tensor, without communication."""
    if not isinstance(value, Tensor) or not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(
        value.to(parameter.device), parameter.device_mesh, parameter.placements, src_data_rank=None
    )


def _joined(part: Any) -> Any:
    """Returns the full tensor; anything else, such as a buffer, is not sharded."""
    return part.full_tensor() if isinstance(part, DTensor) else part


def _agreeing_on_buffers(model: nn.Module, _: tuple[Any, ...]) -> None:
    """Copies the main process's buffers, like torch's replicated data parallelism."""
    for buffer in model.buffers():
        distributed.broadcast(buffer, src=0)
