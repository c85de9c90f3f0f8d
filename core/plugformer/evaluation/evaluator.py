"""Scores of a model on a split: what metrics make of its answers, and of how probable the right ones are."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.decoding import not_finite
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.evaluation.predictor import Predictor
from plugformer.evaluation.report import Report, Score, in_class_order
from plugformer.evaluation.scoring import Measured, OfFamily, aggregated, measure
from plugformer.interfaces import (
    LikelihoodMetric,
    OutputMetric,
    Prediction,
    SourceMetric,
)


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

    def given_to(self, metric: LikelihoodMetric, split: EncodedSplit) -> tuple[ndarray, ndarray, ndarray]:
        """Returns the arguments of a metric's `statistics`: it counts units of its own as targets."""
        targets = self.targets if metric.unit == "targets" else split.units(metric.unit, self.targets)
        correct = np.zeros_like(self.targets) if self.correct is None else self.correct
        return self.log_probabilities, targets, correct


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
    metrics: Mapping[str, OfFamily]
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
        for rows, likelihoods in self.predictor.computed(split, own, self.predictor.model.likelihoods):
            for column, values in zip(columns, likelihoods, strict=True):
                column[rows] = np.nan if values is None else values.cpu().numpy()
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

        def aggregates() -> dict[str, float]:
            given = self._given(split, rows, answers, right)
            return {name: aggregated(each, *given[name])[0] for name, each in self.metrics.items()}

        return self.processes.on_main(aggregates)

    def _given(
        self,
        split: EncodedSplit,
        rows: Sequence[int],
        answers: Sequence[Prediction],
        right: SplitLikelihoods | None,
    ) -> dict[str, tuple[Any, ...]]:
        """Returns the arguments of each metric's `statistics`; `right` is None if no metric needs it."""
        outputs = [answer.output for answer in answers], [split.references(row) for row in rows]
        whole = [split.input(row) for row in rows], *outputs
        given: dict[str, tuple[Any, ...]] = {
            name: whole if isinstance(each, SourceMetric) else outputs
            for name, each in self.output_metrics.items()
        }
        if right is not None:
            given |= {name: right.given_to(each, split) for name, each in self.likelihood_metrics.items()}
        return given

    def report(self, split: EncodedSplit, run: Path, name: str) -> Report:
        """Returns the scores on a whole split, as a report about a run's split of that name."""
        started = time.perf_counter()
        measured = self.measured(split)
        seconds = time.perf_counter() - started
        scores = {metric: each.score for metric, each in measured.items()}
        statistics = {metric: each.statistics for metric, each in measured.items()}
        return Report(run, name, scores, len(split), seconds, statistics=statistics)

    def measured(self, split: EncodedSplit) -> dict[str, Measured]:
        """Returns each metric's score on a whole split, and each example's statistics.

        Raises:
            NotFiniteError: The model's scores are not finite.
            RegistryError: What a metric returns is no score.
        """
        rows = range(len(split) if self.output_metrics else 0)
        answers = self.answers(split, rows)
        right = self.likelihoods(split) if self.likelihood_metrics else None
        if right is not None and (broken := np.isnan(right.log_probabilities)).any():
            raise not_finite(int(broken.argmax()))

        def scores() -> dict[str, Measured]:
            given = self._given(split, rows, answers, right)
            found = {name: measure(metric, *given[name]) for name, metric in self.metrics.items()}
            return {
                name: each._replace(score=in_class_order(each.score, self.classes))
                for name, each in found.items()
            }

        return self.processes.on_main(scores)

    def output_scores(self, split: EncodedSplit) -> dict[str, Score]:
        """Returns the scores of the metrics that need decoding."""
        found = replace(self, metrics=self.output_metrics).measured(split)
        return {name: each.score for name, each in found.items()}
