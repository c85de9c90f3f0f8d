"""The contract of metrics, see plugformer.interfaces.metric."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy import ndarray

from plugformer.interfaces import Metric, OutputMetric, OutputType, SourceMetric, Value, as_text
from plugformer_testing.contract import contract_check, require, require_equal
from plugformer_testing.subject import Subject


@dataclass(frozen=True)
class Scored:
    """Predictions and the references of each, texts or other answers.

    For a metric that reads sources, the source is the first right answer. For a metric of likelihoods, the
    words of a right answer have the probability 0.9, and those of a wrong one 0.1.
    """

    predictions: tuple[Value, ...]
    references: tuple[tuple[Value, ...], ...]


REFERENCES = (
    ("the cat sat on the mat",),
    ("a quick brown fox jumps over the dog",),
    ("it rains in the north today",),
    ("nobody has seen the red house",),
)
WRONG = ("yes no maybe", "zzz", "completely other words here", "42")

OTHER = "another way to say it"

ONE = Scored((REFERENCES[0][0],), REFERENCES[:1])
EMPTY = Scored(("",), REFERENCES[:1])
HALF = Scored((*(texts[0] for texts in REFERENCES[:2]), *WRONG[2:]), REFERENCES)
SEVERAL = Scored(HALF.predictions, tuple((*texts, OTHER) for texts in REFERENCES))
EXAMPLES = (ONE, EMPTY, HALF, SEVERAL)

EXAMPLES_OF: dict[str, Sequence[tuple[Value, Value]]] = {
    OutputType.TAGS: ((["B", "A", "C"], ["A", "B", "B"]), (["C", "A"], ["A", "C"])),
    OutputType.LABELS: ((["blue", "red"], ["green"]), (["green"], ["red"])),
    OutputType.NUMBER: ((1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)),
}
"""Right answers that are no text, each with a wrong one."""


@contract_check(EXAMPLES)
def statistics_are_numbers(subject: Subject, case: Scored) -> None:
    """Statistics are (examples, statistics), finite, one row for each example, which is not changed."""
    metric: Any = subject.create()
    given = _arguments(metric, case)
    before = copy.deepcopy(given)
    found = metric.statistics(*given)
    for now, then in zip(given, before, strict=True):
        require_equal(list(now), list(then), "an argument after the call")
    count = len(case.predictions)
    fits = isinstance(found, np.ndarray) and found.ndim == 2 and len(found) == count
    require(fits, f"statistics have shape {np.shape(found)}, expected ({count}, statistics)")
    require(np.isfinite(found).all(), "statistics are not finite")


@contract_check((HALF, SEVERAL))
def an_example_counts_by_itself(subject: Subject, case: Scored) -> None:
    """The score of an example does not depend on the other examples; the aggregate not on their order."""
    metric: Metric = subject.create()
    whole = _statistics(metric, case)
    for number, row in enumerate(whole):
        single = Scored((case.predictions[number],), (case.references[number],))
        alone = metric.aggregate(_statistics(metric, single))
        _require_close(metric.aggregate(row[None]), alone, f"the score of example {number}, alone another,")
    other = metric.aggregate(whole[[2, 0, 3, 1]])
    _require_close(other, metric.aggregate(whole), "the aggregate in another order")


def _require_close(found: float, expected: float, what: str) -> None:
    close = math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    require(close, f"{what} is {found}, expected {expected}")


@contract_check(EXAMPLES)
def the_aggregate_is_one_number(subject: Subject, case: Scored) -> None:
    """The aggregate is a finite number that depends only on statistics, which it does not change."""
    metric: Metric = subject.create()
    score, again = (metric.aggregate(_statistics(metric, case)) for _ in range(2))
    require(
        isinstance(score, float) and math.isfinite(score), f"the aggregate is {score!r}, expected a number"
    )
    require_equal(again, score, "the aggregate of the same predictions")
    statistics = _statistics(metric, case)
    before = statistics.copy()
    require_equal(subject.create().aggregate(statistics), score, "the aggregate by another object")
    require(np.array_equal(statistics, before), "aggregate changes the statistics")


@contract_check(EXAMPLES)
def the_interval_holds_the_value(subject: Subject, case: Scored) -> None:
    """The interval is finite, contains the aggregate, is wider at a higher level, and repeatable."""
    metric: Metric = subject.create()
    statistics = _statistics(metric, case)
    value = metric.aggregate(statistics)
    low, high = metric.interval(statistics)
    require(math.isfinite(low) and math.isfinite(high), f"the interval is {low} to {high}, expected numbers")
    holds = low <= value + 1e-9 and value <= high + 1e-9
    require(holds, f"the interval {low:g} to {high:g} misses the value {value:g}")
    require_equal(tuple(metric.interval(statistics)), (low, high), "the interval of the same statistics")
    narrow_low, narrow_high = metric.interval(statistics, level=0.5)
    what = f"the interval at level 0.5 ({narrow_low:g} to {narrow_high:g}) is wider than at 0.95"
    require(narrow_high - narrow_low <= high - low + 1e-9, what)


@contract_check()
def right_predictions_score_best(subject: Subject) -> None:
    """Predictions that equal their references score best, wrong ones worst, as higher_is_better says."""
    metric: Metric = subject.create()
    cases = (Scored(tuple(texts[0] for texts in REFERENCES), REFERENCES), HALF, Scored(WRONG, REFERENCES))
    scores = [metric.aggregate(_statistics(metric, case)) for case in cases]
    ordered = scores == sorted(scores, reverse=metric.higher_is_better) and scores[0] != scores[2]
    better = "higher" if metric.higher_is_better else "lower"
    require(ordered, f"all right, half right and all wrong score {scores}, though {better} is better")


@contract_check((0, 1))
def any_joint_reference_counts(subject: Subject, place: int) -> None:
    """A text that equals one of several references is as good as one that equals the only one."""
    metric: Metric = subject.create()
    if isinstance(metric, OutputMetric) and OutputType.TEXT in metric.accepts:
        text = REFERENCES[0][0]
        cases = (
            Scored((text,), (texts,)) for texts in ((text, OTHER) if place == 0 else (OTHER, text), (text,))
        )
        several, one = (metric.aggregate(_statistics(metric, case)) for case in cases)
        close = math.isclose(several, one, rel_tol=1e-6)
        require(
            close, f"a prediction that equals reference {place + 1} of 2 scores {several}, expected {one}"
        )


@contract_check(EXAMPLES)
def reports_can_show_what_stands_beside_the_score(subject: Subject, case: Scored) -> None:
    """A signature is one line of text; a table has a whole number for each column in every row."""
    metric: Metric = subject.create()
    given = _arguments(metric, case)
    signature = metric.signature(given[1]) if isinstance(metric, OutputMetric) else ""
    one_line = isinstance(signature, str) and len(signature.splitlines()) <= 1
    require(one_line, f"the signature is {signature!r}, expected one line of text")
    table = metric.table(*given) if isinstance(metric, OutputMetric | SourceMetric) else None
    for name, numbers in table.rows.items() if table else ():
        fits = table is not None and [type(number) for number in numbers] == [int] * len(table.columns)
        require(fits, f"the table's row {name!r} is {numbers}, expected a whole number for each column")


def _arguments(metric: Metric, case: Scored) -> tuple[Any, ...]:
    """Returns a case as arguments for the `statistics` of a metric."""
    case = _with_own_answers(metric, case)
    predictions = copy.deepcopy(list(case.predictions))
    references = [copy.deepcopy(list(texts)) for texts in case.references]
    firsts = [as_text(texts[0]) for texts in references]
    if isinstance(metric, OutputMetric):
        return predictions, references
    if isinstance(metric, SourceMetric):
        return firsts, predictions, references
    right = np.array([text in texts for text, texts in zip(predictions, references, strict=True)])
    targets = np.array([len(text.split()) for text in firsts])
    return targets * np.log(np.where(right, 0.9, 0.1)), targets, targets * right


def _statistics(metric: Any, case: Scored) -> ndarray:
    found: ndarray = metric.statistics(*_arguments(metric, case))
    return found


def _with_own_answers(metric: Metric, case: Scored) -> Scored:
    """Returns a case with answers of the metric's type, or its own examples, in place of the sentences."""
    own = metric.check_examples
    if not own and not metric.accepts & {OutputType.TEXT, OutputType.LABEL}:
        own = next((EXAMPLES_OF[kind] for kind in sorted(metric.accepts) if kind in EXAMPLES_OF), ())
    if not own:
        return case
    examples = list(islice(cycle(own), len(REFERENCES)))
    first, wrong_one = examples[0]
    nothing: Value = "" if isinstance(first, str) else [] if isinstance(first, list) else wrong_one
    answers: dict[Value, Value] = {OTHER: wrong_one, "": nothing}
    for (right,), wrong, (own_right, own_wrong) in zip(REFERENCES, WRONG, examples, strict=True):
        answers |= {right: own_right, wrong: own_wrong}
    references = tuple(tuple(answers[text] for text in texts) for texts in case.references)
    return Scored(tuple(answers[text] for text in case.predictions), references)
