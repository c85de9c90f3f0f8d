"""Schedules that begin with a linear warm-up."""

import math
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule

WarmupSteps = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)],
    Field(description="Updates of the warm-up, or their share of all updates; 0 for none."),
]


class Constant(Schedule):
    """The factor 1, reached linearly over `warmup_steps` updates; a share of all updates is rounded up."""

    def __init__(self, *, warmup_steps: WarmupSteps = 0) -> None:
        self.warmup_steps = warmup_steps

    def warmup_length(self, steps: int) -> int:
        """Returns the updates of the warm-up in a training of so many updates."""
        share = isinstance(self.warmup_steps, float)
        return math.ceil(self.warmup_steps * steps) if share else int(self.warmup_steps)

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns min(1, step / warmup_steps)."""
        length = self.warmup_length(steps)
        return min(1.0, step / length) if length else 1.0


class WarmupCosine(Constant):
    """step / warmup_steps, then final + (1 - final) (1 + cos(pi t)) / 2; t reaches 1 at the last update.

    The cosine is one period of SGDR, Loshchilov and Hutter 2017, equation 5: https://arxiv.org/abs/1608.03983.

    Args:
        final: Share of the learning rate left at the last update.
    """

    def __init__(
        self, *, warmup_steps: WarmupSteps = 0.1, final: Annotated[float, Field(ge=0, le=1)] = 0.0
    ) -> None:
        super().__init__(warmup_steps=warmup_steps)
        self.final = final

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the share of the learning rate at this update."""
        length = self.warmup_length(steps)
        if step <= length:
            return super().factor(step, steps=steps, width=width)
        passed = (step - length) / (steps - length)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * min(1.0, passed))) / 2


class Noam(Schedule):
    """width^-0.5 min(step^-0.5, step warmup_steps^-1.5): a linear rise, then an inverse square root.

    Attention Is All You Need, Vaswani et al. 2017, equation 3: https://arxiv.org/abs/1706.03762. The factor
    multiplies the optimizer's learning rate, which is 1 in the paper.

    Args:
        warmup_steps: Number of updates of the rise; the paper's 4000 by default.
    """

    def __init__(self, *, warmup_steps: Annotated[int, Field(ge=1)] = 4000) -> None:
        self.warmup_steps = warmup_steps

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the formula's value."""
        return float(width**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5))
