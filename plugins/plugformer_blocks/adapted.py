"""Modules of other libraries within components."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class AdaptedModule(nn.Module):
    """A module of another library, which draws its initial values in its constructor.

    Components draw theirs in `reset_parameters`, by a random stream of their own; this one makes the module
    anew there, and takes its values.

    Args:
        make: Makes the module, the same one at each call but for random numbers.
    """

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.make = make
        self.module = make()

    def reset_parameters(self) -> None:
        """Takes over the parameters of a new module."""
        new = dict(self.make().named_parameters())
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.copy_(new[name])

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Returns what the module returns."""
        return self.module(*arguments, **named)
