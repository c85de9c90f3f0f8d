"""A straight line from the full learning rate to none, or to a share of it."""

from typing import Annotated

from pydantic import Field

from plugformer.interfaces import Schedule


class NewComponent(Schedule):
    """From 1 at the first update in a straight line to `end` at the last.

    As https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html without a start.

    Args:
        end: The factor of the last update.
    """

    def __init__(
        self,
        *,
        end: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> None:
        self.end = end

    def factor(
        self,
        step: int,
        *,
        steps: int,
        width: int,  # noqa: ARG002 (for schedules that scale with the model's width)
    ) -> float:
        """Returns 1 - (1 - end) (step - 1) / (steps - 1); a training of one update has the factor 1."""
        return 1 - (1 - self.end) * (step - 1) / max(1, steps - 1)
