"""What would decide a comparison that is undecided: more seeds, or more test examples."""

from bisect import bisect_left
from dataclasses import replace
from math import ceil, sqrt

from plugformer_ablation.judging.looks import Look
from plugformer_ablation.judging.records import Needed
from plugformer_ablation.judging.statistics import StudentT

MOST = 1000
"""More seeds, or so many times the examples, are of no use to anybody."""


def would_decide(test: StudentT | None, look: Look, smallest: float | None) -> Needed | None:
    """Returns how many seeds or test examples would decide a comparison, or None if neither can be told.

    The interval of so many seeds would exclude 0, or show equivalence, if the difference and the variances
    of seeds and examples stayed as they are. The level is half of that of the last look: more seeds after a
    verdict are a look that was not planned. This is no power: were the difference the true one, the interval
    of such a study would exclude 0 about every second time.

    `seeds` is None if `MOST` would not do. `examples` is then a lower bound of those that are needed,
    with any number of seeds, provided that it is larger than what there is.

    Args:
        test: The difference with its errors over seeds and examples.
        look: Of this verdict.
        smallest: The smallest difference that matters, if arms can be equivalent.
    """
    if test is None or test.other is None or not test.mean or not look.alpha:
        return None
    other, reach = test.other, abs(test.mean)
    seeds, examples = round(test.freedom) + 1, round(other.freedom) + 1
    room = [(reach, look.alpha / 2)]
    if smallest is not None and reach < smallest:
        room.append((smallest - reach, look.equivalence / 2))

    def decided(number: int) -> bool:
        then = replace(test, error=test.error * sqrt(seeds / number), freedom=float(number - 1))
        return any(then.margin(alpha) < limit for limit, alpha in room)

    numbers = range(seeds + 1, MOST + 1)
    if decided(MOST):
        return {"seeds": numbers[bisect_left(numbers, True, key=decided)], "examples": None}
    needed = min(ceil(examples * (other.margin(alpha) / limit) ** 2) for limit, alpha in room)
    return {"seeds": None, "examples": needed} if examples < needed <= MOST * examples else None
