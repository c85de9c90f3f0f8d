"""A constant learning rate."""

from plugformer.interfaces import Schedule
from plugformer_plugins.schedule.warmup import WarmupSteps, warmup, warmup_length


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
