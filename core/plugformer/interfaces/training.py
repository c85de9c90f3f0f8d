"""The parts of a training: initial values, parametrizations, optimizers, schedules and hooks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.errors import ConfigurationError


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


class Role(StrEnum):
    """What a parameter is: a vector or a table of vectors, or a map: hidden, to queries, or to outputs.

    A module may say what its parameters are in an attribute `roles`, such as `{"table": Role.INPUT}`. By
    default vectors, embeddings and encodings of positions are inputs, the map `query` of an attention makes
    queries (with its bias), matrices of the head whose outputs do not grow with the width are outputs, and
    all others are hidden.
    """

    INPUT = "input"
    HIDDEN = "hidden"
    QUERY = "query"
    OUTPUT = "output"


class Updates(StrEnum):
    """How large the updates of an optimizer are.

    Attributes:
        ADAPTIVE: Each number moves by about the learning rate, whatever its gradient is: Adam, Lion.
        ORTHOGONAL: So does each number of a matrix, by an orthogonal one: Muon as in section 2.2 of
            https://arxiv.org/abs/2502.16982.
        GRADIENT: Each number moves by the learning rate times its gradient: SGD.
    """

    ADAPTIVE = "adaptive"
    ORTHOGONAL = "orthogonal"
    GRADIENT = "gradient"


@dataclass(frozen=True, kw_only=True)
class ParameterSize:
    """The sizes of a parameter over those of the same parameter in the base model.

    Attributes:
        role: What the parameter is.
        fan_in: Number of inputs of each output; vectors and tables have one.
        fan_out: Number of outputs.
        longest: The larger of both numbers.
        head_width: Width of heads, of a map to queries; scores are divided by the root of it.
        multiplier: What outputs are multiplied by, such as embeddings by the root of the width.
        residual_layers: As for `Initialization.draw`, and over nothing.
    """

    role: Role
    fan_in: float = 1.0
    fan_out: float = 1.0
    longest: float = 1.0
    head_width: float = 1.0
    multiplier: float = 1.0
    residual_layers: int = 0


class Parametrization(ABC):
    """How initial values and learning rates follow the size of a model, relative to a base model.

    A component is constructed as `SomeParametrization(**options)`. A factor on what a parameter makes, such
    as 1 / d in attention, becomes a part of its values and its learning rate (Tensor Programs V, Yang et al.
    2022, lemma J.1: https://arxiv.org/abs/2203.03466), so that no model computes anything else.

    Attributes:
        base: What differs in the base model, of `width`, `heads` and `ffn_width`. If nothing does, it is the
            model itself, and the methods are not called.
    """

    base: Mapping[str, int] = MappingProxyType({})

    @abstractmethod
    def scale(self, size: ParameterSize) -> float:
        """Returns the root mean square of a parameter's initial values over that in the base model."""

    @abstractmethod
    def rate(self, size: ParameterSize, updates: Updates) -> float:
        """Returns the factor of a parameter's learning rate; weight decay is divided by it."""


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
        """Returns the optimizer of these named parameters.

        It may evaluate other values than it trains, as a mean of them: the methods `eval` and `train` of what
        is returned then give parameters these values, and those of before again.
        """

    def updates(self, path: str, parameter: Tensor) -> Updates:  # noqa: ARG002 (a default)
        """Returns how large its updates of a parameter are, for parametrizations.

        Raises:
            ConfigurationError: By default: it does not say so.
        """
        message = f"{type(self).__name__} does not say how large its updates are, as adamw, lion and muon do"
        raise ConfigurationError(f"training.optimizer: {message}\nchoose another one, or define `updates`")


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
        """Returns the settings that the weights of `model.initialize_from` fix in a task; none by default.

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
