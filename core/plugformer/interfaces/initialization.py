"""Initialization: the initial values of parameters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class ParameterContext:
    """The parameter that an initialization draws.

    Attributes:
        name: The parameter's own name in its module, such as `weight`.
        path: Its path in the model, such as `encoder.layers.0.feed_forward.down.weight`.
        module: The module that holds it.
        residual_layers: The number of sublayers that add to the same residual stream, for parameters of the
            last map of a sublayer; otherwise 0.
    """

    name: str
    path: str
    module: nn.Module
    residual_layers: int = 0


class Initialization(ABC):
    """A scheme of initial values for all parameters of a model.

    A component is constructed as `SomeInitialization(**options)` with its own keyword options. It is called
    for each parameter after every module has drawn its own values (`reset_parameters`). For each call torch's
    generator is seeded from the seed and the parameter's path, so parameters with the same path in two models
    have equal values. No call may depend on an earlier one.
    """

    @abstractmethod
    def draw(self, values: Float[Tensor, "..."], parameter: ParameterContext) -> None:
        """Sets a parameter's values in place, or keeps those that its module has drawn."""
