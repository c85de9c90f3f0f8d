"""Metrics as Hugging Face `evaluate.Metric`; importing this module imports `evaluate`, which is slow."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import evaluate
import numpy as np
import pyarrow as pa
from datasets import Features, Value
from datasets import List as ListOf
from numpy import ndarray

from plugformer.evaluation.report import Score, scored
from plugformer.interfaces import Answer, LikelihoodMetric, Metric, OutputMetric, SourceMetric


class OfflineMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """Computes a metric's value and interval without the network.

    Examples are kept in memory: no lock, and no file that concurrent evaluations could fight over.

    Args:
        metric: The metric.
        cache_dir: A folder that `evaluate` creates its own (empty) folders in.

    Attributes:
        statistics: Those of the examples that a value was computed of last.
    """

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

    @property
    def columns(self) -> Mapping[str, object]:
        """The types of what a value is computed of."""
        raise NotImplementedError


class OfflineOutputMetric(OfflineMetric):
    """Takes `compute(predictions=[...], references=[[...], ...])`."""

    inputs = "Answers, and for each a list of right ones."
    metric: OutputMetric

    @property
    def columns(self) -> Mapping[str, object]:
        """Answers as the metric takes them."""
        answer = _answer(self.metric)
        return {"predictions": answer, "references": ListOf(answer)}

    def _compute(self, predictions: Sequence[Any], references: Sequence[Sequence[Any]]) -> Score:
        self.statistics = np.asarray(self.metric.statistics(predictions, references))
        signature, table = self.metric.signature(references), self.metric.table(predictions, references)
        return scored(self.metric, self.statistics, signature, table)


class OfflineSourceMetric(OfflineMetric):
    """Takes `compute(sources=[...], predictions=[...], references=[[...], ...])`."""

    inputs = "Sources, answers, and for each a list of right ones."
    metric: SourceMetric

    @property
    def columns(self) -> Mapping[str, object]:
        """Texts, and answers as the metric takes them."""
        answer = _answer(self.metric)
        return {"sources": Value("string"), "predictions": answer, "references": ListOf(answer)}

    def _compute(
        self, sources: Sequence[str], predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Score:
        self.statistics = np.asarray(self.metric.statistics(sources, predictions, references))
        return scored(self.metric, self.statistics, table=self.metric.table(sources, predictions, references))


class OfflineLikelihoodMetric(OfflineMetric):
    """Takes `compute(log_probabilities=[...], targets=[...], correct=[...])`."""

    inputs = "For each example its log-probability, its number of targets, and how many are predicted right."
    metric: LikelihoodMetric

    @property
    def columns(self) -> Mapping[str, object]:
        """Numbers."""
        real, integer = Value("float64"), Value("int64")
        return {
            "log_probabilities": real,
            "targets": integer if self.metric.unit == "targets" else real,
            "correct": integer,
        }

    def _compute(
        self,
        log_probabilities: Sequence[float],
        targets: Sequence[float],
        correct: Sequence[int],
    ) -> Score:
        arrays = (np.asarray(column) for column in (log_probabilities, targets, correct))
        self.statistics = np.asarray(self.metric.statistics(*arrays))
        return scored(self.metric, self.statistics)


def _answer(metric: Metric) -> object:
    """Returns the Arrow type of the answers that a metric measures."""
    if not metric.accepts <= set(Answer) and metric.check_examples:
        example, _ = metric.check_examples[0]
        return Features.from_arrow_schema(pa.table({"answer": [example]}).schema)["answer"]
    if metric.accepts <= {Answer.NUMBER}:
        return Value("float64")
    return ListOf(Value("string")) if metric.accepts <= {Answer.TAGS, Answer.LABELS} else Value("string")
