"""The contract of metrics: see plugformer.interfaces.metric."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import Metric, OutputMetric, OutputType, SourceMetric, Value, as_text
from plugformer_testing.check import check, fail, require
from plugformer_testing.subject import Subject


@dataclass(frozen=True)
class Scored:
    """Predictions and the references of each, texts or other answers.

    A metric that reads sources sees them as answers of a task whose first right answer is its source.
    A metric of likelihoods sees them as a model that finds the words of a right answer probable (0.9 each)
    and, where a prediction is wrong, none of them (0.1 each).
    """

    name: str
    predictions: tuple[Value, ...]
    references: tuple[tuple[Value, ...], ...]

    def part(self, number: int) -> "Scored":
        """Returns one of the examples."""
        return Scored(f"example {number}", (self.predictions[number],), (self.references[number],))

    def __str__(self) -> str:
        return f"{self.name}: {list(self.predictions)} against {[list(each) for each in self.references]}"


REFERENCES = (
    ("the cat sat on the mat",),
    ("a quick brown fox jumps over the dog",),
    ("it rains in the north today",),
    ("nobody has seen the red house",),
)
WRONG = ("yes no maybe", "zzz", "completely other words here", "42")

OTHER = "another way to say it"

ONE = Scored("one right", (REFERENCES[0][0],), REFERENCES[:1])
EMPTY = Scored("one empty", ("",), REFERENCES[:1])
HALF = Scored("half right", (*(each[0] for each in REFERENCES[:2]), *WRONG[2:]), REFERENCES)
SEVERAL = Scored("joint references", HALF.predictions, tuple((*each, OTHER) for each in REFERENCES))
EXAMPLES = (ONE, EMPTY, HALF, SEVERAL)

EXAMPLES_OF: dict[str, Sequence[tuple[Value, Value]]] = {
    OutputType.TAGS: ((["B", "A", "C"], ["A", "B", "B"]), (["C", "A"], ["A", "C"])),
    OutputType.LABELS: ((["blue", "red"], ["green"]), (["green"], ["red"])),
    OutputType.NUMBER: ((1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)),
}
"""Right answers that are no text, each with a wrong one."""


@check(EXAMPLES)
def statistics_are_numbers(subject: Subject, case: Scored) -> None:
    """Statistics are (examples, statistics), finite, one row for each example, which stays as it is."""
    metric: Any = subject.create()
    given = _given(metric, case)
    before = copy.deepcopy(given)
    found = metric.statistics(*given)
    for now, then in zip(given, before, strict=True):
        same = list(now) == list(then)
        require(same, f"it changes what it is given: {list(then)} becomes {list(now)}, for other metrics too")
    expected = f"expected ({len(case.predictions)}, statistics)"
    if not (isinstance(found, np.ndarray) and found.ndim == 2 and len(found) == len(case.predictions)):
        fail(f"statistics have shape {np.shape(found)}, {expected}")
    require(bool(np.isfinite(found).all()), "statistics are not finite")


@check((HALF, SEVERAL))
def an_example_counts_by_itself(subject: Subject, case: Scored) -> None:
    """The score of an example's statistics does not depend on the examples beside it."""
    metric: Metric = subject.create()
    whole = _statistics(metric, case)
    for number, row in enumerate(whole):
        alone, among = _score(metric, case.part(number)), metric.aggregate(row[None])
        if not _same(alone, among):
            fail(f"example {number} scores {among:g} among the others and {alone:g} alone")


@check(EXAMPLES)
def the_aggregate_is_one_number(subject: Subject, case: Scored) -> None:
    """The aggregate is a finite number that statistics alone decide; these stay as they are."""
    metric: Metric = subject.create()
    scores = [_score(metric, case) for _ in range(2)]
    require(isinstance(scores[0], float) and math.isfinite(scores[0]), f"the aggregate is {scores[0]!r}")
    require(scores[0] == scores[1], f"the same predictions score {scores[0]} once and {scores[1]} again")
    statistics = _statistics(metric, case)
    before = statistics.copy()
    other = subject.create().aggregate(statistics)
    require(other == scores[0], f"statistics score {scores[0]} with the metric that made them, else {other}")
    require(np.array_equal(statistics, before), "aggregate changes the statistics: intervals are of others")


@check((HALF, SEVERAL))
def the_order_of_examples_does_not_matter(subject: Subject, case: Scored) -> None:
    """Another order of the examples has the same aggregate."""
    metric: Metric = subject.create()
    statistics = _statistics(metric, case)
    score, other = metric.aggregate(statistics), metric.aggregate(statistics[[2, 0, 3, 1]])
    require(_same(score, other), f"in another order {score} becomes {other}")


@check(EXAMPLES)
def the_interval_holds_the_value(subject: Subject, case: Scored) -> None:
    """The interval is finite, contains the aggregate, is wider at a higher level, and repeatable."""
    metric: Metric = subject.create()
    statistics = _statistics(metric, case)
    value = metric.aggregate(statistics)
    low, high = metric.interval(statistics)
    require(math.isfinite(low) and math.isfinite(high), f"the interval is {low} to {high}")
    if not (low <= value + 1e-9 and value <= high + 1e-9):
        fail(f"the interval {low:g} to {high:g} misses the value {value:g}")
    if (low, high) != metric.interval(statistics):
        fail("the interval of the same statistics differs each time")
    narrow_low, narrow_high = metric.interval(statistics, level=0.5)
    if not narrow_high - narrow_low <= high - low + 1e-9:
        fail(f"the interval at level 0.5 ({narrow_low:g} to {narrow_high:g}) is wider than at 0.95")


@check()
def right_predictions_score_best(subject: Subject) -> None:
    """Predictions that equal their references score best, wrong ones worst, as higher_is_better says."""
    metric: Metric = subject.create()
    right = Scored("right", tuple(each[0] for each in REFERENCES), REFERENCES)
    wrong = Scored("wrong", WRONG, REFERENCES)
    scores = [_score(metric, case) for case in (right, HALF, wrong)]
    direction = "higher" if metric.higher_is_better else "lower"
    if scores != sorted(scores, reverse=metric.higher_is_better) or scores[0] == scores[2]:
        said = "{:g}, {:g} and {:g}".format(*scores)
        fail(f"all right, half right and all wrong score {said}, though {direction} is better")


@check((0, 1))
def any_joint_reference_counts(subject: Subject, place: int) -> None:
    """A text that equals one of several references is as good as one that equals the only one."""
    metric: Metric = subject.create()
    if not isinstance(metric, OutputMetric) or OutputType.TEXT not in metric.accepts:
        return
    prediction = REFERENCES[0][0]
    references = (prediction, OTHER) if place == 0 else (OTHER, prediction)
    several, one = (
        _score(metric, Scored("", (prediction,), (each,))) for each in (references, (prediction,))
    )
    what = f"a prediction that equals reference {place + 1} of 2 scores {several:g}"
    close = math.isclose(several, one, rel_tol=1e-6)
    require(close, f"{what}, one that equals the only reference {one:g}")


@check(EXAMPLES)
def reports_can_show_what_stands_beside_the_score(subject: Subject, case: Scored) -> None:
    """A signature is one line of text; a table has a whole number for each column in every row."""
    metric: Metric = subject.create()
    given = _given(metric, case)
    signature = metric.signature(given[1]) if isinstance(metric, OutputMetric) else ""
    if not (isinstance(signature, str) and len(signature.splitlines()) <= 1):
        fail(f"the signature {signature!r} is not one line of text")
    table = metric.table(*given) if isinstance(metric, OutputMetric | SourceMetric) else None
    for name, numbers in table.rows.items() if table else ():
        fits = table is not None and len(numbers) == len(table.columns)
        if not (fits and all(type(number) is int for number in numbers)):
            fail(f"the table's row {name!r} is {numbers}, expected a whole number for each column")


def _given(metric: Metric, case: Scored) -> tuple[Any, ...]:
    """Returns a case as a metric of its family is given it."""
    case = _own(metric, case)
    predictions = copy.deepcopy(list(case.predictions))
    references = [copy.deepcopy(list(each)) for each in case.references]
    firsts = [as_text(each[0]) for each in references]
    if isinstance(metric, OutputMetric):
        return predictions, references
    if isinstance(metric, SourceMetric):
        return firsts, predictions, references
    right = np.array([each in right for each, right in zip(predictions, references, strict=True)])
    targets = np.array([len(text.split()) for text in firsts])
    return targets * np.log(np.where(right, 0.9, 0.1)), targets, targets * right


def _statistics(metric: Any, case: Scored) -> Float[ndarray, "examples statistics"]:
    found: ndarray = metric.statistics(*_given(metric, case))
    return found


def _score(metric: Metric, case: Scored) -> float:
    return metric.aggregate(_statistics(metric, case))


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _own(metric: Metric, case: Scored) -> Scored:
    """Returns a case with answers of the metric's kind in place of the sentences: its own, if it has some."""
    own = metric.check_examples
    if not own and not metric.accepts & {OutputType.TEXT, OutputType.LABEL}:
        own = next((EXAMPLES_OF[each] for each in sorted(metric.accepts) if each in EXAMPLES_OF), ())
    if not own:
        return case
    examples = list(islice(cycle(own), len(REFERENCES)))
    first, wrong_one = examples[0]
    nothing: Value = "" if isinstance(first, str) else [] if isinstance(first, list) else wrong_one
    answers: dict[Value, Value] = {OTHER: wrong_one, "": nothing}
    for (right,), wrong, (own_right, own_wrong) in zip(REFERENCES, WRONG, examples, strict=True):
        answers |= {right: own_right, wrong: own_wrong}
    references = tuple(tuple(answers[text] for text in each) for each in case.references)
    return Scored(case.name, tuple(answers[each] for each in case.predictions), references)
