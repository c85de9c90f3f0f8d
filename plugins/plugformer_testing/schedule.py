"""The contract of schedules: see plugformer.interfaces.schedule."""

import math
from collections.abc import Iterable

from plugformer.interfaces import Schedule
from plugformer_testing.check import check, fail, require
from plugformer_testing.subject import Subject

LENGTHS = (1, 2, 7, 1000)
"""Updates of trainings, short ones among them: what is shorter than a warm-up must work too."""

WIDTH = 64


@check(LENGTHS)
def factors_are_numbers(subject: Subject, steps: int) -> None:
    """Every update's factor is finite and not negative."""
    _require_numbers(subject.create(), range(1, steps + 1), steps, WIDTH)


@check((2, 7, 1000))
def only_the_last_update_may_stand_still(subject: Subject, steps: int) -> None:
    """The factor is positive at every update but the last, where a curve may end at zero."""
    for step, factor in enumerate(_curve(subject.create(), steps)[:-1], start=1):
        require(factor > 0, f"the factor of update {step} of {steps} is zero: nothing is learned there")


@check(LENGTHS)
def factors_depend_on_the_arguments_alone(subject: Subject, steps: int) -> None:
    """Asked again, in another order or from another object, it gives the same: a resumed run has no past."""
    schedule: Schedule = subject.create()
    schedule.factor(1, steps=steps + 1, width=2 * WIDTH)
    forwards = _curve(schedule, steps)
    backwards = [schedule.factor(step, steps=steps, width=WIDTH) for step in range(steps, 0, -1)]
    message = (
        "factors depend on what was asked before: the schedule keeps a state, and resuming changes the curve"
    )
    require(backwards[::-1] == forwards, message)
    require(_curve(subject.create(), steps) == forwards, message)


@check((1, 8, 64, 1024))
def any_width_works(subject: Subject, width: int) -> None:
    """Factors are finite for models of any width."""
    _require_numbers(subject.create(), (1, 50, 100), 100, width)


def _require_numbers(schedule: Schedule, updates: Iterable[int], steps: int, width: int) -> None:
    for step in updates:
        factor = schedule.factor(step, steps=steps, width=width)
        what = f"the factor of update {step} of {steps}, for a model of width {width}, is {factor!r}"
        if not (isinstance(factor, (int, float)) and math.isfinite(factor)):
            fail(f"{what}, expected a finite number")
        require(factor >= 0, f"{what}: it is negative")


def _curve(schedule: Schedule, steps: int) -> list[float]:
    return [schedule.factor(step, steps=steps, width=WIDTH) for step in range(1, steps + 1)]
