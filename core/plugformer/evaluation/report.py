"""The results of evaluations and self-checks, as people and scripts read them."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NotRequired

from numpy import ndarray
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12, and brings it

from plugformer.interfaces import Prediction


class Score(TypedDict):
    """A metric's `value`, and `low` and `high`, the ends of its 95 % confidence interval.

    `signature` describes the settings of the metric; `table` has a `title`, `columns` and `rows`.
    """

    value: float
    low: float
    high: float
    signature: NotRequired[str]
    table: NotRequired[dict[str, Any]]


TOLERANCE = 1e-3
"""Difference of log-probabilities, in nats, up to which two computations agree."""


def close(one: Any, other: Any, tolerance: float = TOLERANCE) -> bool:
    """Returns whether two outputs are equal, floating-point numbers in them within a tolerance."""
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(close(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(partial(close, tolerance=tolerance), one, other))
    return bool(one == other)


@dataclass(frozen=True)
class ConsistencyCheck:
    """The comparison of two ways to compute the same answers.

    Attributes:
        name: Name of both ways.
        difference: The largest difference of log-probabilities, in nats; NaN if the model computes NaN.
        example: The input that shows it.
        likely: The likely cause of a difference.
        error: Message of the exception that a component raised instead.
    """

    name: str
    difference: float
    example: str
    likely: str
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether both results agree."""
        return not self.error and self.difference <= TOLERANCE

    def as_json(self) -> dict[str, Any]:
        """Returns the record for `self_check.json`."""
        difference = self.difference if math.isfinite(self.difference) else None
        record = {"check": self.name, "passed": self.passed, "difference": difference}
        if self.passed:
            return record
        return {**record, "error": self.error or None, "input": self.example, "likely": self.likely}

    def __str__(self) -> str:
        """Returns the error message."""
        differ = f"log-probabilities differ by {self.difference:.3g}, more than {TOLERANCE}"
        return f"{self.name}: {self.error or differ}"


@dataclass(frozen=True)
class SelfCheck:
    """All comparisons that a self-check made, and the number of examples that it used."""

    comparisons: list[ConsistencyCheck]
    examples: int

    @property
    def passed(self) -> bool:
        """Whether all agree."""
        return not self.failed

    @property
    def failed(self) -> list[ConsistencyCheck]:
        """The comparisons that do not agree."""
        return [comparison for comparison in self.comparisons if not comparison.passed]

    def as_json(self) -> dict[str, Any]:
        """Returns the form in `self_check.json`."""
        checks = [comparison.as_json() for comparison in self.comparisons]
        return {"passed": self.passed, "examples": self.examples, "tolerance": TOLERANCE, "checks": checks}

    def __str__(self) -> str:
        """Returns one line about success."""
        names = ", ".join(comparison.name for comparison in self.comparisons)
        largest = max((comparison.difference for comparison in self.comparisons), default=0.0)
        return f"{names} ({self.examples} examples, differences up to {largest:.0e})"


@dataclass(frozen=True)
class BaselineScores:
    """What a baseline scores on the split of a report.

    Attributes:
        metrics: Its score by each of the task's metrics that can measure it.
        examples: Number of training examples that it has learned from.
        available: Number of all training examples; None if they are streamed, and nobody has counted them.
        unbeaten: The metric by which the model is not better, if it is not: of the task's metrics the first
            that measures both. Else empty.
    """

    metrics: dict[str, Score]
    examples: int
    available: int | None
    unbeaten: str


@dataclass(frozen=True)
class Report:
    """Metrics on one split.

    Attributes:
        run: The run directory.
        split: Name of the split.
        metrics: Each metric's score.
        examples: Number of examples.
        seconds: Wall time: of the whole training at its end, else of the evaluation.
        others: Reports on further test splits.
        self_check: At the end of a training, whether the saved model computes what it should.
        unconstrained: The scores of outputs that need not respect the task's constraints, if it has some.
        baselines: The scores of simple methods by name, at the end of a training.
        statistics: By metric, each example's statistics that the score is the aggregate of; not in `as_json`,
            as are `encoded`, the split, and `answers`, if a metric needs them.
    """

    run: Path
    split: str
    metrics: dict[str, Score]
    examples: int
    seconds: float
    others: list["Report"] = field(default_factory=list)
    self_check: SelfCheck | None = None
    unconstrained: dict[str, Score] = field(default_factory=dict)
    baselines: dict[str, BaselineScores] = field(default_factory=dict)
    statistics: dict[str, ndarray] = field(default_factory=dict, repr=False)
    encoded: Any = field(default=None, repr=False)
    answers: Sequence[Prediction] = field(default=(), repr=False)

    def __repr__(self) -> str:
        """Returns run, split and scores on one line."""
        scores = [
            f"{name} {score['value']:.4f} [{score['low']:.4f}, {score['high']:.4f}]"
            for name, score in self.metrics.items()
        ]
        shown = "".join(f", {part}" for part in [*scores, *map(repr, self.others)])
        return f"Report({str(self.run)!r}, {self.split}, {self.examples:,} examples{shown})"

    def _repr_html_(self) -> str:
        """Returns the scores as a table, for Jupyter."""
        rows = "".join(
            f"<tr><td>{report.split}</td><td>{name}</td><td>{score['value']:.4f}</td>"
            f"<td>{score['low']:.4f} to {score['high']:.4f}</td></tr>"
            for report in (self, *self.others)
            for name, score in report.metrics.items()
        )
        head = "<tr><th>split</th><th>metric</th><th>value</th><th>95 % interval</th></tr>"
        return f"<table><caption>{html.escape(str(self.run))}</caption>{head}{rows}</table>"

    def as_json(self) -> dict[str, Any]:
        """Returns the form that `--json` prints."""
        record: dict[str, Any] = {
            "run": str(self.run),
            "split": self.split,
            "metrics": self.metrics,
            "examples": self.examples,
            "seconds": round(self.seconds, 1),
        }
        more = {
            "unconstrained": self.unconstrained,
            "baselines": {name: vars(scores) for name, scores in self.baselines.items()},
            "others": [other.as_json() for other in self.others],
            "self_check": self.self_check and self.self_check.as_json(),
        }
        return record | {key: value for key, value in more.items() if value}
