"""Noise on the gradients, less at each update."""

from collections.abc import Generator
from typing import Annotated

import torch
from pydantic import Field

from plugformer.hooks import hookimpl
from plugformer.interfaces import Callback, Model


class NewComponent(Callback):
    """Adds normal noise with the variance scale / (1 + step) ** 0.55 to all gradients.

    Adding Gradient Noise Improves Learning for Very Deep Networks, Neelakantan et al. 2015, section 3:
    https://arxiv.org/abs/1511.06807.

    Args:
        scale: Variance before the first update.
    """

    def __init__(self, *, scale: Annotated[float, Field(ge=0)] = 0.01) -> None:
        self.scale = scale

    @hookimpl(wrapper=True)
    def optimizer_step(self, model: Model, step: int) -> Generator[None, object, object]:
        """Adds the noise before the update."""
        deviation = (self.scale / (1 + step) ** 0.55) ** 0.5
        for parameter in model.parameters():
            if parameter.grad is not None:
                noise = torch.randn(parameter.shape, generator=self.generator).to(parameter.grad)
                parameter.grad.add_(noise, alpha=deviation)
        return (yield)
