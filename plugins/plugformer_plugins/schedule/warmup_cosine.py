"""Linear warm-up, then half a cosine."""

import math
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule
from plugformer_plugins.schedule.warmup import WarmupSteps, warmup, warmup_length


class WarmupCosine(Schedule):
    """step / warmup_steps, then final + (1 - final) (1 + cos(pi t)) / 2; t reaches 1 at the last update.

    The cosine is one period of SGDR, Loshchilov and Hutter 2017, equation 5: https://arxiv.org/abs/1608.03983.

    Args:
        warmup_steps: Updates of the warm-up, or their share of all updates; 0 for none.
        final: Share of the learning rate left at the last update.
    """

    def __init__(
        self,
        *,
        warmup_steps: WarmupSteps = 0.1,
        final: Annotated[
            float, Field(ge=0, le=1, description="Share of the learning rate left at the last update.")
        ] = 0.0,
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
