"""Scores of a model on a split: what metrics make of its answers, and of how probable the right ones are."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.decoding import not_finite
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import DataError
from plugformer.evaluation.predictor import Predictor
from plugformer.evaluation.report import Report, Score, in_class_order, scored
from plugformer.interfaces import (
    LikelihoodMetric,
    Metric,
    OutputMetric,
    Prediction,
    SourceMetric,
    evaluating,
)
from plugformer.interfaces.prediction import Value


class Measured(NamedTuple):
    """A score, and each example's statistics that it is the aggregate of."""

    score: Score
    statistics: Float[ndarray, "examples statistics"]


def measure(metric: OutputMetric | SourceMetric | LikelihoodMetric, *given: Any) -> Measured:
    """Returns a metric's score, and what it is made of.

    Args:
        metric: The metric.
        *given: What the `statistics` of its family take: columns of one length, the number of examples.

    Raises:
        DataError: There is no example.
    """
    if not len(given[0]):
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
    statistics = np.asarray(metric.statistics(*given))
    if isinstance(metric, OutputMetric):
        return Measured(
            scored(metric, statistics, metric.signature(given[1]), metric.table(*given)), statistics
        )
    table = metric.table(*given) if isinstance(metric, SourceMetric) else None
    return Measured(scored(metric, statistics, table=table), statistics)


class Answers(NamedTuple):
    """Inputs, answers and right answers, example by example; see `SourceMetric.statistics`."""

    sources: list[str]
    predictions: list[Value]
    references: list[list[Value]]

    @classmethod
    def to(cls, split: EncodedSplit, rows: Sequence[int], predictions: Sequence[Prediction]) -> "Answers":
        """Returns the answers to some examples of a split."""
        return cls(
            [split.input(row) for row in rows],
            [prediction.output for prediction in predictions],
            [split.references(row) for row in rows],
        )

    def columns(self, metric: OutputMetric | SourceMetric) -> tuple[list[Any], ...]:
        """Returns the arguments of a metric's `statistics`."""
        return tuple(self) if isinstance(metric, SourceMetric) else (self.predictions, self.references)


def _in_units(
    metric: LikelihoodMetric, split: EncodedSplit, right: "SplitLikelihoods"
) -> tuple[Float[ndarray, " n"], Int[ndarray, " n"] | Float[ndarray, " n"], Int[ndarray, " n"]]:
    """Returns likelihoods as a metric is given them, with the number of units that it counts as targets."""
    targets = right.targets if metric.unit == "targets" else split.units(metric.unit, right.targets)
    correct = np.zeros_like(right.targets) if right.correct is None else right.correct
    return right.log_probabilities, targets, correct


class SplitLikelihoods(NamedTuple):
    """How probable the right answers are, example by example; see `LikelihoodMetric.statistics`."""

    log_probabilities: Float[ndarray, " examples"]
    targets: Int[ndarray, " examples"] | Float[ndarray, " examples"]
    correct: Int[ndarray, " examples"] | None

    @property
    def loss(self) -> float:
        """Mean loss over all targets, in nats."""
        return float(-self.log_probabilities.sum() / self.targets.sum())

    @property
    def token_accuracy(self) -> float | None:
        """Share of targets that are the most probable output; None where nothing is right or wrong."""
        return None if self.correct is None else float(self.correct.sum() / self.targets.sum())


@dataclass(frozen=True)
class Evaluator:
    """Measures a model.

    Attributes:
        predictor: Answers with the model.
        metrics: By the names that reports give them.
        classes: Names of the classes in their order, which tables follow; none where answers are others.
        processes: Those that share the examples; all get all figures.
    """

    predictor: Predictor
    metrics: dict[str, Metric]
    classes: Sequence[str] = ()
    processes: Processes = SINGLE_PROCESS

    @property
    def output_metrics(self) -> dict[str, OutputMetric | SourceMetric]:
        """The metrics that need decoding."""
        return {
            name: each for name, each in self.metrics.items() if isinstance(each, OutputMetric | SourceMetric)
        }

    @property
    def likelihood_metrics(self) -> dict[str, LikelihoodMetric]:
        """The metrics that need only one pass over the right answers."""
        return {name: each for name, each in self.metrics.items() if isinstance(each, LikelihoodMetric)}

    def likelihoods(self, split: EncodedSplit) -> SplitLikelihoods:
        """Returns the likelihoods of the targets, each given those before it."""
        own = self.processes.share(range(len(split)))
        columns = np.zeros((3, len(split)))
        with evaluating(self.predictor.model):
            for batch in self.predictor.batches(split, own):
                for column, values in zip(columns, self.predictor.model.likelihoods(batch), strict=True):
                    column[batch.rows] = np.nan if values is None else values.cpu().numpy()
        found = self.processes.total(columns)  # where another process has looked, this one has zeros
        correct = None if np.isnan(found[2]).any() else found[2].astype(np.int64)
        return SplitLikelihoods(found[0], found[1].astype(np.int64), correct)

    def answers(self, split: EncodedSplit, rows: Sequence[int]) -> list[Prediction]:
        """Returns the model's answers to some rows, in their order."""
        with self.processes.raise_everywhere():
            own = self.predictor.predict(split, self.processes.share(rows))
        shares = self.processes.gather(own)
        return [shares[place % len(shares)][place // len(shares)] for place in range(len(rows))]

    def values(
        self, split: EncodedSplit, rows: Sequence[int], answers: Sequence[Prediction], right: SplitLikelihoods
    ) -> dict[str, float]:
        """Returns each metric's value.

        Args:
            split: The examples.
            rows: Those that were answered; metrics of outputs are measured on them alone.
            answers: The model's answers to them.
            right: How probable the right answers to all examples are.
        """
        texts = Answers.to(split, rows, answers)

        def aggregates() -> dict[str, float]:
            statistics = {
                **{name: each.statistics(*texts.columns(each)) for name, each in self.output_metrics.items()},
                **{
                    name: each.statistics(*_in_units(each, split, right))
                    for name, each in self.likelihood_metrics.items()
                },
            }
            return {name: metric.aggregate(statistics[name]) for name, metric in self.metrics.items()}

        return self.processes.on_main(aggregates)

    def report(self, split: EncodedSplit, run: Path, name: str) -> Report:
        """Returns the scores on a whole split, as a report about a run's split of that name."""
        started = time.perf_counter()
        measured = self.measured(split)
        seconds = time.perf_counter() - started
        statistics = {score: each.statistics for score, each in measured.items()}
        return Report(run, name, _scores(measured), len(split), seconds, statistics=statistics)

    def measured(self, split: EncodedSplit) -> dict[str, Measured]:
        """Returns each metric's score on a whole split, and each example's statistics.

        Raises:
            NotFiniteError: The model's scores are not finite.
        """
        found = self._measured_outputs(split)
        if by_likelihood := self.likelihood_metrics:
            right = self.likelihoods(split)
            if (broken := np.isnan(right.log_probabilities)).any():
                raise not_finite(int(broken.argmax()))
            found |= self.processes.on_main(
                lambda: {
                    name: measure(metric, *_in_units(metric, split, right))
                    for name, metric in by_likelihood.items()
                }
            )
        return {name: found[name] for name in self.metrics}

    def output_scores(self, split: EncodedSplit) -> dict[str, Score]:
        """Returns the scores of the metrics that need decoding."""
        return _scores(self._measured_outputs(split))

    def _measured_outputs(self, split: EncodedSplit) -> dict[str, Measured]:
        if not self.output_metrics:
            return {}
        rows = range(len(split))
        texts = Answers.to(split, rows, self.answers(split, rows))
        found = self.processes.on_main(
            lambda: {
                name: measure(metric, *texts.columns(metric)) for name, metric in self.output_metrics.items()
            }
        )
        return {
            name: each._replace(score=in_class_order(each.score, self.classes))
            for name, each in found.items()
        }


def _scores(measured: dict[str, Measured]) -> dict[str, Score]:
    return {name: each.score for name, each in measured.items()}
