"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Optimizer, Updates


class NewComponent(Optimizer):
    """v = 0.9 v + gradient; parameter = parameter - lr * v.

    On the importance of initialization and momentum in deep learning, Sutskever et al. 2013, equations 1
    and 2: https://proceedings.mlr.press/v28/sutskever13.html.

    Args:
        lr: Learning rate; the schedule's factor multiplies it.
    """

    def __init__(self, *, lr: Annotated[float, Field(gt=0)] = 0.01) -> None:
        self.lr = lr

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns torch's SGD over the trainable parameters."""
        trained = [parameter for _, parameter in parameters if parameter.requires_grad]
        return torch.optim.SGD(trained, lr=self.lr, momentum=0.9)

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns that steps are proportional to gradients; a parametrization asks for it."""
        return Updates.GRADIENT
