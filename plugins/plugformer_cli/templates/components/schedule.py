"""A straight line from the full learning rate to zero."""

from plugformer.interfaces import Schedule


class NewComponent(Schedule):
    """Falls in a straight line from 1 at the first update to 0 at the last.

    See https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html.
    """

    def factor(self, step: int, *, steps: int, width: int) -> float:
        """Returns 1 - (step - 1) / (steps - 1), and 1 for a training of one update."""
        return 1 - (step - 1) / max(1, steps - 1)
