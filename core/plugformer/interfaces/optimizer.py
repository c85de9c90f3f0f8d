"""Optimizers: how gradients become updates."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import nn


class Optimizer(ABC):
    """Builds a torch optimizer.

    A component is constructed as `SomeOptimizer(**options)`; `lr` is one of its options, the learning rate
    that the schedule's factor multiplies. The component keeps it as its attribute `lr`, and all parameter
    groups of the built optimizer have it as their `lr`: another rate for some parameters is a factor under
    another key of their group, which the optimizer's `step` multiplies.
    """

    lr: float

    @abstractmethod
    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizer of these named parameters."""
