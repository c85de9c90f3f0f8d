"""Schedules that begin with a linear warm-up."""

import math
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule

Share = Annotated[float, Field(gt=0, lt=1)]
WarmupSteps = Annotated[
    Annotated[int, Field(ge=0)] | Share,
    Field(description="Updates of the warm-up, or their share of all updates; 0 for none."),
]
Final = Annotated[float, Field(ge=0, le=1, description="Share of the learning rate left at the last update.")]


def number_of_updates(updates: int | float, steps: int) -> int:
    """Returns a number of updates that may be given as a share of all updates, which is rounded up."""
    return math.ceil(round(updates * steps, 6)) if isinstance(updates, float) else updates


class Constant(Schedule):
    """A constant learning rate after an optional linear warm-up.

    The factor 1, reached linearly over `warmup_steps` updates; a share of all updates is rounded up.
    See https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ConstantLR.html.
    """

    def __init__(self, *, warmup_steps: WarmupSteps = 0) -> None:
        self.warmup_steps = warmup_steps

    def warmup_length(self, steps: int) -> int:
        """Returns the updates of the warm-up in a training of so many updates."""
        return number_of_updates(self.warmup_steps, steps)

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns min(1, step / warmup_steps)."""
        length = self.warmup_length(steps)
        return min(1.0, step / length) if length else 1.0


class WarmupLinear(Constant):
    """Linear warm-up, then a straight line down to a share of the learning rate.

    step / warmup_steps, then a straight line from 1 down to `final` at the last update.

    BERT, Devlin et al. 2019, appendix A.2: https://arxiv.org/abs/1810.04805.
    """

    def __init__(self, *, warmup_steps: WarmupSteps = 0.1, final: Final = 0.0) -> None:
        super().__init__(warmup_steps=warmup_steps)
        self.final = final

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the share of the learning rate at this update."""
        length = self.warmup_length(steps)
        if step <= length:
            return super().factor(step, steps=steps, width=width)
        return self.falling(min(1.0, (step - length) / (steps - length)))

    def falling(self, passed: float) -> float:
        """Returns the share of the learning rate after a share of the updates that follow the warm-up."""
        return 1 - (1 - self.final) * passed


class WarmupCosine(WarmupLinear):
    """Linear warm-up, then half a cosine down to a share of the learning rate.

    step / warmup_steps, then final + (1 - final) (1 + cos(pi t)) / 2; t reaches 1 at the last update.

    The cosine is one period of SGDR, Loshchilov and Hutter 2017, equation 5: https://arxiv.org/abs/1608.03983.
    """

    def falling(self, passed: float) -> float:
        """Returns the share of the learning rate after a share of the updates that follow the warm-up."""
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * passed)) / 2


class WarmupStableDecay(Constant):
    """Linear warm-up, a constant learning rate, and a straight line down at the end.

    step / warmup_steps, then 1, and over the last `decay_steps` updates a straight line down to `final`.

    MiniCPM, Hu et al. 2024, section 4: https://arxiv.org/abs/2404.06395. The decay is linear as in Scaling
    Laws and Compute-Optimal Training Beyond Fixed Training Durations, Hägele et al. 2024, section 3:
    https://arxiv.org/abs/2405.18392.

    Args:
        decay_steps: Updates of the decay, or their share of all updates.
    """

    def __init__(
        self,
        *,
        warmup_steps: WarmupSteps = 0.1,
        decay_steps: Annotated[int, Field(ge=1)] | Share = 0.2,
        final: Final = 0.0,
    ) -> None:
        super().__init__(warmup_steps=warmup_steps)
        self.decay_steps = decay_steps
        self.final = final

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the share of the learning rate at this update."""
        rising = super().factor(step, steps=steps, width=width)
        length = number_of_updates(self.decay_steps, steps)
        passed = min(1.0, max(0.0, (step - steps + length) / length))
        return min(rising, 1 - (1 - self.final) * passed)


class InverseSquareRoot(Constant):
    """Linear warm-up, then decay with the inverse square root of the step.

    step / warmup_steps, then sqrt(warmup_steps / step): `noam` without the width.

    The optimizer's learning rate is reached at the end of the warm-up, as in fairseq:
    https://fairseq.readthedocs.io/en/latest/lr_scheduler.html.

    Args:
        warmup_steps: Updates of the warm-up.
    """

    def __init__(self, *, warmup_steps: Annotated[int, Field(ge=1)] = 4000) -> None:
        super().__init__(warmup_steps=warmup_steps)

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the share of the learning rate at this update."""
        return min(step / self.warmup_steps, float((self.warmup_steps / step) ** 0.5))


class Noam(Schedule):
    """Linear warm-up, then decay with the inverse square root of the step; scaled by the width.

    width^-0.5 min(step^-0.5, step warmup_steps^-1.5): a linear rise, then an inverse square root.

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
