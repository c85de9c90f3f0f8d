"""Metrics as Hugging Face `evaluate.Metric`; importing this module imports `evaluate`, which is slow."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import evaluate
import numpy as np
from datasets import Features, Value
from datasets import List as ListOf
from numpy import ndarray

from plugformer.evaluation.report import Score, scored
from plugformer.interfaces import LikelihoodMetric, Metric, OutputMetric, SourceMetric


class OfflineMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """Computes a metric's value and interval without the network.

    Examples are kept in memory: no lock, and no file that concurrent evaluations could fight over.

    Args:
        metric: The metric.
        cache_dir: A folder that `evaluate` creates its own (empty) folders in.

    Attributes:
        statistics: Those of the examples that a value was computed of last.
    """

    columns: ClassVar[Mapping[str, object]]
    inputs: ClassVar[str]

    def __init__(self, metric: Metric, cache_dir: str) -> None:
        self.metric = metric
        self.statistics: ndarray = np.empty((0, 0))
        super().__init__(keep_in_memory=True, cache_dir=cache_dir)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=type(self.metric).__doc__ or "",
            citation="",
            inputs_description=self.inputs,
            features=Features(self.columns),
        )


class OfflineOutputMetric(OfflineMetric):
    """Takes `compute(predictions=[...], references=[[...], ...])`."""

    columns: ClassVar = {"predictions": Value("string"), "references": ListOf(Value("string"))}
    inputs = "Texts, and for each text a list of references."
    metric: OutputMetric

    def _compute(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        self.statistics = np.asarray(self.metric.statistics(predictions, references))
        signature, table = self.metric.signature(references), self.metric.table(predictions, references)
        return scored(self.metric, self.statistics, signature, table)


class OfflineSourceMetric(OfflineMetric):
    """Takes `compute(sources=[...], predictions=[...], references=[[...], ...])`."""

    columns: ClassVar = {"sources": Value("string"), **OfflineOutputMetric.columns}
    inputs = "Sources, texts that answer them, and for each text a list of references."
    metric: SourceMetric

    def _compute(
        self, sources: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Score:
        self.statistics = np.asarray(self.metric.statistics(sources, predictions, references))
        return scored(self.metric, self.statistics, table=self.metric.table(sources, predictions, references))


class OfflineLikelihoodMetric(OfflineMetric):
    """Takes `compute(log_probabilities=[...], targets=[...], correct=[...])`."""

    columns: ClassVar = {
        "log_probabilities": Value("float64"),
        "targets": Value("int64"),
        "correct": Value("int64"),
    }
    inputs = "For each example its log-probability, its number of targets, and how many are predicted right."
    metric: LikelihoodMetric

    def _compute(
        self,
        log_probabilities: Sequence[float],
        targets: Sequence[int],
        correct: Sequence[int],
    ) -> Score:
        arrays = (np.asarray(column) for column in (log_probabilities, targets, correct))
        self.statistics = np.asarray(self.metric.statistics(*arrays))
        return scored(self.metric, self.statistics)
