"""The parts of a training: initial values, optimizers, learning-rate schedules and hooks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Initialization(ABC):
    """A scheme of initial values for all parameters of a model.

    A component is constructed as `SomeInitialization(**options)`. It is called for each parameter after every
    module has drawn its own values (`reset_parameters`). For each call torch's generator is seeded from the
    seed and the parameter's path. No call may depend on an earlier one.
    """

    @abstractmethod
    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Sets a parameter's values in place, or keeps those that its module has drawn.

        Args:
            values: The parameter.
            path: Its path in the model, such as `encoder.layers.0.feed_forward.down.weight`.
            module: The module that holds it.
            residual_layers: For the last map of a sublayer the number of sublayers that add to the same
                stream, otherwise 0.
        """


class Optimizer(ABC):
    """Builds a torch optimizer.

    A component is constructed as `SomeOptimizer(**options)`. One option is the learning rate `lr`, which the
    first parameter group has, too. Before every step the schedule's factor multiplies the rate `lr` of each
    group. Where a task has groups, several optimizers train a model, each some of its parameters.
    """

    lr: float
    schedules: Mapping[str, "Schedule"] = MappingProxyType({})
    """Schedules of its own for parameter groups, by their `name`."""

    @abstractmethod
    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizer of these named parameters."""


class Schedule(ABC):
    """A factor on the optimizer's learning rate at every update; a pure function.

    A component is constructed as `SomeSchedule(**options)`.
    """

    @abstractmethod
    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the factor for update number `step` of `steps`, from 1, of a model of this width."""


class Callback:
    """Takes part in a training by implementing hooks of `plugformer.hooks.TrainingHooks`.

    A component is constructed as `SomeCallback(**options)`; `training.callbacks` of a task lists it. It
    implements a hook by a method of the same name, marked with `plugformer.hooks.hookimpl`, with any of the
    arguments. As in pluggy, an implementation that returns a value ends the call, and `wrapper=True` wraps
    the others and the core (`result = yield`, then `return`). It may also watch by implementing hooks of
    `plugformer.hooks.Hooks`. All processes of a training call it, and must end with the same parameters.
    """

    generator: torch.Generator
    """The source of random numbers, on the CPU, which the core seeds for each call."""

    def decided(
        self,
        written: Mapping[str, Any],  # noqa: ARG002 (a default)
    ) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        """Returns what the weights of `model.initialize_from` decide in a written task, by default nothing.

        That is a file for messages, settings that a task must not contradict, and ones that it may replace.
        """
        return "", {}, {}

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for checkpoints, empty by default: tensors, numbers, texts and containers.

        With `training.shard`, a tensor with a parameter's name and shape is sharded like the parameter.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state_dict` returned; its tensors are on the CPU."""
