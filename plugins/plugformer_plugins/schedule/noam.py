"""The schedule of the original transformer."""

from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule


class Noam(Schedule):
    """width^-0.5 min(step^-0.5, step warmup_steps^-1.5): a linear rise, then an inverse square root.

    Attention Is All You Need, Vaswani et al. 2017, equation 3: https://arxiv.org/abs/1706.03762. The factor
    multiplies the optimizer's learning rate, which is 1 in the paper.

    Args:
        warmup_steps: Number of updates of the rise; the paper's 4000 by default.
    """

    def __init__(
        self,
        *,
        warmup_steps: Annotated[
            int, Field(ge=1, description="Updates over which the learning rate rises linearly.")
        ] = 4000,
    ) -> None:
        self.warmup_steps = warmup_steps

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns the formula's value."""
        return float(width**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5))
