"""Initialization: which values parameters have before the first update."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class ParameterContext:
    """What an initialization is told of a parameter.

    Attributes:
        name: The parameter's own name in its module, such as `weight`.
        path: Its path in the model, such as `encoder.layers.0.feed_forward.down.weight`.
        module: The module that holds it.
        residual_layers: Of a parameter of the last map of a sublayer, whose output is added to the residual
            stream: the number of sublayers that add to that stream. Otherwise 0.
    """

    name: str
    path: str
    module: nn.Module
    residual_layers: int = 0


class Initialization(ABC):
    """A scheme of initial values for all parameters of a model.

    A component is constructed as `SomeInitialization(**options)` with its own keyword options. When it is
    asked, every module has drawn its own values (`reset_parameters`). Each parameter is asked for alone, and
    torch's generator is seeded for it from the seed and its path: parameters that two models share then start
    equal. No call may depend on an earlier one.
    """

    @abstractmethod
    def draw(self, values: Float[Tensor, "..."], parameter: ParameterContext) -> None:
        """Sets a parameter's values in place, or leaves those that its module has drawn.

        Args:
            values: The parameter.
            parameter: What it is.
        """
