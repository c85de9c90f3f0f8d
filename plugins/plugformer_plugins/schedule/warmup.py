"""Linear warm-up: the share of the learning rate reached in the first updates."""

import math
from typing import Annotated

from pydantic import Field

WarmupSteps = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)],
    Field(
        description="Updates over which the learning rate rises linearly from zero: a number, or a share of "
        "all updates such as 0.1."
    ),
]


def warmup_length(warmup_steps: WarmupSteps, steps: int) -> int:
    """Returns the updates of the warm-up in a training of so many updates; a share is rounded up."""
    return warmup_steps if isinstance(warmup_steps, int) else math.ceil(warmup_steps * steps)


def warmup(step: int, length: int) -> float:
    """Returns step / length until that reaches 1, then 1."""
    return min(1.0, step / length) if length else 1.0
