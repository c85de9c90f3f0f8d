"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from plugformer.interfaces import Optimizer


class NewComponent(Optimizer):
    """v = momentum * v + gradient; parameter = parameter - lr * v.

    On the importance of initialization and momentum in deep learning, Sutskever et al. 2013, equations 1
    and 2: https://proceedings.mlr.press/v28/sutskever13.html.

    Args:
        lr: Learning rate, which the schedule's factor multiplies.
        momentum: Share of the last step that is made again.
    """

    def __init__(
        self,
        *,
        lr: Annotated[float, Field(gt=0)] = 0.01,
        momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9,
    ) -> None:
        self.lr = lr
        self.momentum = momentum

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns torch's SGD over the parameters that are trained."""
        trained = [parameter for _, parameter in parameters if parameter.requires_grad]
        return torch.optim.SGD(trained, lr=self.lr, momentum=self.momentum)
