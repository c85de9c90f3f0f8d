"""Schedules that begin with a linear warm-up."""

import math
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule

WarmupSteps = Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)]


def warmup_length(warmup_steps: WarmupSteps, steps: int) -> int:
    """Returns the updates of the warm-up in a training of so many updates; a share is rounded up."""
    return warmup_steps if isinstance(warmup_steps, int) else math.ceil(warmup_steps * steps)


def warmup(step: int, length: int) -> float:
    """Returns step / length until that reaches 1, then 1."""
    return min(1.0, step / length) if length else 1.0


class Constant(Schedule):
    """The factor 1, reached linearly over `warmup_steps` updates.

    Args:
        warmup_steps: Updates of the warm-up, or their share of all updates; 0 for none.
    """

    def __init__(self, *, warmup_steps: WarmupSteps = 0) -> None:
        self.warmup_steps = warmup_steps

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns min(1, step / warmup_steps)."""
        return warmup(step, warmup_length(self.warmup_steps, steps))


class WarmupCosine(Schedule):
    """step / warmup_steps, then final + (1 - final) (1 + cos(pi t)) / 2; t reaches 1 at the last update.

    The cosine is one period of SGDR, Loshchilov and Hutter 2017, equation 5: https://arxiv.org/abs/1608.03983.

    Args:
        warmup_steps: Updates of the warm-up, or their share of all updates; 0 for none.
        final: Share of the learning rate left at the last update.
    """

    def __init__(
        self, *, warmup_steps: WarmupSteps = 0.1, final: Annotated[float, Field(ge=0, le=1)] = 0.0
    ) -> None:
        self.warmup_steps = warmup_steps
        self.final = final

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the share of the learning rate at this update."""
        length = warmup_length(self.warmup_steps, steps)
        if step <= length:
            return warmup(step, length)
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
