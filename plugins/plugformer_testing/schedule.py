"""The contract of schedules, see plugformer.interfaces.training."""

import math

from plugformer.interfaces import Schedule
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

LENGTHS = (1, 2, 7, 1000)  # updates of trainings, also shorter ones than a warm-up
WIDTH = 64


def _curve(schedule: Schedule, steps: int, width: int = WIDTH) -> list[float]:
    return [schedule.factor(step, steps=steps, width=width) for step in range(1, steps + 1)]


@contract_check((*((steps, WIDTH) for steps in LENGTHS), *((100, width) for width in (1, 8, 1024))))
def factors_are_numbers(subject: Subject, case: tuple[int, int]) -> None:
    """The factor of every update is finite and not negative, for models of any width.

    A case is the number of updates and the width of the model.
    """
    for step, factor in enumerate(_curve(subject.create(), *case), start=1):
        sound = isinstance(factor, (int, float)) and math.isfinite(factor) and factor >= 0
        require.that(sound, f"the factor of update {step} is {factor!r}, expected a finite number from 0")


@contract_check((2, 7, 1000))
def only_the_last_update_may_stand_still(subject: Subject, steps: int) -> None:
    """The factor is positive at every update but the last, where a curve may end at zero."""
    for step, factor in enumerate(_curve(subject.create(), steps)[:-1], start=1):
        require.that(factor > 0, f"the factor of update {step} of {steps} is zero: nothing is learned there")


@contract_check(LENGTHS)
def factors_depend_on_the_arguments_alone(subject: Subject, steps: int) -> None:
    """Called again, in another order or on another object, it gives the same: a resumed run has no past."""
    schedule: Schedule = subject.create()
    schedule.factor(1, steps=steps + 1, width=2 * WIDTH)
    forwards = _curve(schedule, steps)
    backwards = [schedule.factor(step, steps=steps, width=WIDTH) for step in range(steps, 0, -1)]
    same = backwards[::-1] == forwards == _curve(subject.create(), steps)
    require.that(same, "factors depend on earlier calls: resuming would change the curve")
