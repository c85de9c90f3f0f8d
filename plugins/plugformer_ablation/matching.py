"""Solving each arm's hidden width so that arms have equal parameters or operations."""

from collections.abc import Callable

from plugformer.configuration import Task

STEP = 8
"""Hidden widths are multiples of it: other ones are slow on most processors."""

TOLERANCE = 0.01
"""Arms that differ by less count as matched."""

WIDEST = 2**16


def with_hidden_width(task: Task, width: int) -> Task:
    """Returns the same task with another hidden width."""
    return task.model_copy(update={"model": task.model.model_copy(update={"hidden_width": width})})


def solve_width(cost: Callable[[int], float], target: float) -> int:
    """Returns the multiple of eight at which the cost, which grows with the width, is nearest to a target.

    Args:
        cost: Of a hidden width.
        target: The cost that is wanted.
    """
    low, high = STEP, STEP
    while cost(high) < target and high < WIDEST:
        low, high = high, high * 2
    while high - low > STEP:
        middle = (low + high) // (2 * STEP) * STEP
        low, high = (middle, high) if cost(middle) < target else (low, middle)
    return min((low, high), key=lambda width: abs(cost(width) - target))


def mismatch(what: str, cost: float, target: float) -> str:
    """Returns a note about what solving has left, empty where nothing is.

    Args:
        what: What was to be equal.
        cost: The arm's.
        target: The baseline's.
    """
    share = cost / target - 1
    if share == 0:
        return ""
    note = f"{what} {share:+.2%} against the baseline"
    return note if abs(share) <= TOLERANCE else f"{note}: no hidden width comes nearer, it is not matched"
