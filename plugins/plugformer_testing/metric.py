"""The contract of metrics, see plugformer.interfaces.metric."""

import copy
import math
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric, Metric, OutputMetric, OutputType, SourceMetric, as_text
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject


class Scored(NamedTuple):
    """Some examples: which predictions are right (x), wrong (o) or empty (-), and the references of each.

    Sources are the right answers. Words of a right prediction have the probability 0.9, others 0.1.
    """

    predictions: str
    references: str = "x"


EXAMPLES = (Scored("x"), Scored("-"), Scored("xxoo"), Scored("xxoo", "xo"))

SENTENCES = (
    ("the cat sat on the mat", "yes no maybe"),
    ("a quick brown fox jumps over the dog", "zzz"),
    ("it rains in the north today", "completely other words here"),
    ("nobody has seen the red house", "42"),
)
ANSWERS: dict[str, Sequence[tuple[Any, Any]]] = {
    OutputType.TAGS: ((["B", "A", "C"], ["A", "B", "B"]), (["C", "A"], ["A", "C"])),
    OutputType.LABELS: ((["blue", "red"], ["green"]), (["green"], ["red"])),
    OutputType.NUMBER: ((1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)),
    OutputType.NUMBERS: (([1.0, 4.0, 2.0], [4.0, 1.0, 3.0]), ([2.0, 3.0, 4.0], [4.0, 3.0, 2.0])),
}


def _arguments(metric: Metric, case: Scored, first: int = 0) -> tuple[Any, ...]:
    """Returns a case, from the first example on, as arguments for the `statistics` of a metric."""
    own: Sequence[tuple[Any, Any]] = metric.check_examples
    if not own and not metric.accepts & {OutputType.TEXT, OutputType.LABEL}:
        own = next((ANSWERS[kind] for kind in sorted(metric.accepts) if kind in ANSWERS), ())
        measured = f"answers of type {' or '.join(sorted(metric.accepts))}, which the checks do not know"
        advice = "define `check_examples`, pairs of a right and a wrong one"
        require.that(own or isinstance(metric, LikelihoodMetric), f"it measures {measured}: {advice}")
    pairs = copy.deepcopy(list(islice(cycle(own or SENTENCES), first, first + len(case.predictions))))
    other = own[0][1] if own else "another way to say it"
    predictions, references = [], []
    for mark, (right, wrong) in zip(case.predictions, pairs, strict=True):
        texts = right if isinstance(right, list) else [right]
        empty = type(right)() if all(isinstance(text, str) for text in texts) else wrong
        predictions.append(copy.deepcopy({"x": right, "o": wrong, "-": empty}[mark]))
        references.append([right if mark == "x" else other for mark in case.references])
    sources = [as_text(right) for right, _ in pairs]
    if isinstance(metric, OutputMetric):
        return [[each] for each in predictions] if metric.depth else predictions, references
    if isinstance(metric, SourceMetric):
        return sources, predictions, references
    targets, hits = np.array([len(text.split()) for text in sources]), np.array([*case.predictions]) == "x"
    return targets * np.log(np.where(hits, 0.9, 0.1)), targets, targets * hits


def _statistics(metric: Any, case: Scored, first: int = 0) -> ndarray:
    found: ndarray = metric.statistics(*_arguments(metric, case, first))
    return found


def _require_close(found: float, expected: float, what: str) -> None:
    close = math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9)  # a learned one computes in float32
    require.that(close, f"{what} is {found}, expected {expected}")


@contract_check(cases=EXAMPLES)
def statistics_are_numbers(subject: Subject, case: Scored) -> None:
    """Statistics are (examples, statistics), finite, one row for each example, which is not changed."""
    metric: Any = subject.create()
    given = _arguments(metric, case)
    before = copy.deepcopy(given)
    found = metric.statistics(*given)
    for now, then in zip(given, before, strict=True):
        require.equal(list(now), list(then), "an argument after the call")
    count = len(case.predictions)
    fits = isinstance(found, np.ndarray) and found.ndim == 2 and len(found) == count
    require.that(fits, f"statistics have shape {np.shape(found)}, expected ({count}, statistics)")
    require.that(np.isfinite(found).all(), "statistics are not finite")


@contract_check(cases=EXAMPLES[2:])
def an_example_counts_by_itself(subject: Subject, case: Scored) -> None:
    """The score of an example does not depend on the other examples; the aggregate not on their order."""
    metric: Metric = subject.create()
    whole = _statistics(metric, case)
    for row, mark in enumerate(case.predictions):
        alone = metric.aggregate(_statistics(metric, Scored(mark, case.references), row))
        _require_close(metric.aggregate(whole[[row]]), alone, f"the score of example {row}, alone another,")
    other = metric.aggregate(whole[[2, 0, 3, 1]])
    _require_close(other, metric.aggregate(whole), "the aggregate in another order")


@contract_check(cases=EXAMPLES)
def the_aggregate_is_one_number(subject: Subject, case: Scored) -> None:
    """The aggregate is a finite number that depends only on statistics, which it does not change."""
    metric: Metric = subject.create()
    score, again = (metric.aggregate(_statistics(metric, case)) for _ in range(2))
    number = isinstance(score, float) and math.isfinite(score)
    require.that(number, f"the aggregate is {score!r}, expected a number")
    require.equal(again, score, "the aggregate of the same predictions")
    statistics = _statistics(metric, case)
    before = statistics.copy()
    require.equal(subject.create().aggregate(statistics), score, "the aggregate by another object")
    require.that(np.array_equal(statistics, before), "aggregate changes the statistics")


@contract_check(cases=EXAMPLES)
def the_interval_holds_the_value(subject: Subject, case: Scored) -> None:
    """The interval is finite, contains the aggregate, is wider at a higher level, and repeatable."""
    metric: Metric = subject.create()
    statistics = _statistics(metric, case)
    value, (low, high) = metric.aggregate(statistics), metric.interval(statistics)
    holds = low - 1e-9 <= value <= high + 1e-9 and math.isfinite(low) and math.isfinite(high)
    require.that(holds, f"the interval is {low} to {high}, the value {value}")
    require.equal(tuple(metric.interval(statistics)), (low, high), "the interval of the same statistics")
    from_, to = metric.interval(statistics, level=0.5)
    narrower = to - from_ <= high - low + 1e-9
    require.that(narrower, f"the interval is {from_} to {to} at level 0.5, and {low} to {high} at 0.95")


@contract_check()
def right_predictions_score_best(subject: Subject) -> None:
    """Predictions that equal their references score best, wrong ones worst, as higher_is_better says."""
    metric: Metric = subject.create()
    scores = [metric.aggregate(_statistics(metric, Scored(marks))) for marks in ("xxxx", "xxoo", "oooo")]
    ordered = scores == sorted(scores, reverse=metric.higher_is_better) and scores[0] != scores[2]
    better = "higher" if metric.higher_is_better else "lower"
    require.that(ordered, f"all right, half right and all wrong score {scores}, though {better} is better")


@contract_check(cases=("xo", "ox"))
def any_joint_reference_counts(subject: Subject, references: str) -> None:
    """A text that equals one of several references is as good as one that equals the only one."""
    metric: Metric = subject.create()
    if isinstance(metric, OutputMetric) and OutputType.TEXT in metric.accepts:
        cases = (Scored("x", references), Scored("x"))
        several, one = (metric.aggregate(_statistics(metric, case)) for case in cases)
        close = math.isclose(several, one, rel_tol=1e-6)
        require.that(close, f"a prediction that equals one of 2 references scores {several}, expected {one}")
