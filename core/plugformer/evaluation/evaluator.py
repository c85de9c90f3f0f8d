"""Scores of a model on a split."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.evaluation.predictor import Predictor
from plugformer.evaluation.report import Report, Score, in_class_order
from plugformer.evaluation.scoring import OfFamily, aggregated, measure
from plugformer.interfaces import (
    LikelihoodMetric,
    Likelihoods,
    OutputMetric,
    Prediction,
    SourceMetric,
)
from plugformer.interfaces.decoding import not_finite


@dataclass(frozen=True)
class Evaluator:
    """Measures a model.

    Attributes:
        predictor: Answers with the model.
        metrics: By the names that reports give them.
        classes: Names of the classes in their order, which tables follow; empty if answers are not classes.
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
            name: metric
            for name, metric in self.metrics.items()
            if isinstance(metric, OutputMetric | SourceMetric)
        }

    @property
    def likelihood_metrics(self) -> dict[str, LikelihoodMetric]:
        """The metrics that need only one pass over the right answers."""
        return {name: metric for name, metric in self.metrics.items() if isinstance(metric, LikelihoodMetric)}

    def likelihoods(self, split: EncodedSplit) -> Likelihoods:
        """Returns the likelihoods of each example's targets, in main memory; each given those before it."""
        shared = self.processes.share(range(len(split)))
        columns = np.zeros((3, len(split)))
        for rows, likelihoods in self.predictor.computed(split, shared, self.predictor.model.likelihoods):
            for column, values in zip(columns, likelihoods, strict=True):
                column[rows] = np.nan if values is None else values.cpu().numpy()
        # Rows of another process are zeros here.
        log_probabilities, targets, correct = torch.from_numpy(self.processes.total(columns))
        known = None if correct.isnan().any() else correct.long()
        return Likelihoods(log_probabilities, targets.long(), known)

    def answers(self, split: EncodedSplit, rows: Sequence[int]) -> list[Prediction]:
        """Returns the model's answers to some rows, in their order."""
        with self.processes.raise_everywhere():
            predictions = self.predictor.predict(split, self.processes.share(rows))
        shares = self.processes.gather(predictions)
        return [shares[place % len(shares)][place // len(shares)] for place in range(len(rows))]

    def values(
        self, split: EncodedSplit, rows: Sequence[int], answers: Sequence[Prediction], right: Likelihoods
    ) -> dict[str, float]:
        """Returns each metric's value.

        Args:
            split: The examples.
            rows: Those that were answered; metrics of outputs are measured on them alone.
            answers: The model's answers to them.
            right: The likelihoods of the targets of all examples.
        """

        def aggregates() -> dict[str, float]:
            columns = self._columns(split, rows, answers, right)
            return {name: aggregated(metric, *columns[name])[0] for name, metric in self.metrics.items()}

        return self.processes.on_main(aggregates)

    def _columns(
        self,
        split: EncodedSplit,
        rows: Sequence[int],
        answers: Sequence[Prediction],
        right: Likelihoods | None,
    ) -> dict[str, tuple[Any, ...]]:
        """Returns the arguments of each metric's `statistics`; `right` is None if no metric needs it."""
        outputs = [answer.output for answer in answers], [split.references(row) for row in rows]
        with_sources = [split.input(row) for row in rows], *outputs
        columns: dict[str, tuple[Any, ...]] = {
            name: with_sources if isinstance(metric, SourceMetric) else outputs
            for name, metric in self.output_metrics.items()
        }
        if right is not None:
            targets = right.targets.numpy()
            correct = np.zeros_like(targets) if right.correct is None else right.correct.numpy()
            for name, metric in self.likelihood_metrics.items():
                units = targets if metric.unit == "targets" else split.units(metric.unit, targets)
                columns[name] = right.log_probabilities.numpy(), units, correct
        return columns

    def report(self, split: EncodedSplit, run: Path, name: str) -> Report:
        """Returns the scores on a whole split, as a report about a run's split of that name."""
        started = time.perf_counter()
        scores, statistics = self.measured(split)
        seconds = time.perf_counter() - started
        return Report(run, name, scores, len(split), seconds, statistics=statistics)

    def measured(self, split: EncodedSplit) -> tuple[dict[str, Score], dict[str, ndarray]]:
        """Returns each metric's score on a whole split, and each example's statistics.

        Raises:
            NotFiniteError: The model's scores are not finite.
            RegistryError: A metric returns something else than a score.
        """
        rows = range(len(split) if self.output_metrics else 0)
        answers = self.answers(split, rows)
        right = self.likelihoods(split) if self.likelihood_metrics else None
        if right is not None and (broken := right.log_probabilities.isnan()).any():
            raise not_finite(int(broken.nonzero()[0]))

        def measure_all() -> dict[str, tuple[Score, ndarray]]:
            columns = self._columns(split, rows, answers, right)
            return {name: measure(metric, *columns[name]) for name, metric in self.metrics.items()}

        results = self.processes.on_main(measure_all)
        scores = {name: in_class_order(score, self.classes) for name, (score, _) in results.items()}
        return scores, {name: statistics for name, (_, statistics) in results.items()}

    def output_scores(self, split: EncodedSplit) -> dict[str, Score]:
        """Returns the scores of the metrics that need decoding."""
        return replace(self, metrics=self.output_metrics).measured(split)[0]
