"""Metrics as Hugging Face `evaluate.Metric`, for programs that use that library."""

from typing import Any

import evaluate
import numpy as np
import pyarrow as pa
from datasets import Features, Value
from datasets import List as ListOf

from plugformer.evaluation import Score, measure
from plugformer.interfaces import LikelihoodMetric, Metric, OutputMetric, OutputType, SourceMetric


class OfflineMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """Computes a metric's value and interval without the network.

    `compute` takes by name what the metric's `statistics` take: `predictions` and `references`, perhaps also
    `sources`; or `log_probabilities`, `targets` and `correct`. Examples are kept in memory: no lock, and no
    file that concurrent evaluations could fight over.

    Args:
        metric: The metric.
        cache_dir: A folder that `evaluate` creates its own (empty) folders in.
    """

    def __init__(self, metric: OutputMetric | SourceMetric | LikelihoodMetric, cache_dir: str) -> None:
        self.metric = metric
        super().__init__(keep_in_memory=True, cache_dir=cache_dir)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=type(self.metric).__doc__ or "",
            citation="",
            inputs_description=f"What {type(self.metric).__name__}.statistics takes.",
            features=Features(_columns(self.metric)),
        )

    def _compute(self, **columns: Any) -> Score:
        given = [columns[name] for name in _columns(self.metric)]
        if isinstance(self.metric, LikelihoodMetric):
            given = [np.asarray(column) for column in given]
        return measure(self.metric, *given)[0]


def _columns(metric: Metric) -> dict[str, object]:
    """Returns the types of what a value is computed of, in the order of the metric's `statistics`."""
    if isinstance(metric, LikelihoodMetric):
        real, integer = Value("float64"), Value("int64")
        targets = integer if metric.unit == "targets" else real
        return {"log_probabilities": real, "targets": targets, "correct": integer}
    answer = _answer(metric)
    answers = {"predictions": answer, "references": ListOf(answer)}
    return {"sources": Value("string"), **answers} if isinstance(metric, SourceMetric) else answers


def _answer(metric: Metric) -> object:
    """Returns the Arrow type of the answers that a metric measures."""
    if not metric.accepts <= set(OutputType) and metric.check_examples:
        example, _ = metric.check_examples[0]
        return Features.from_arrow_schema(pa.table({"answer": [example]}).schema)["answer"]
    if metric.accepts <= {OutputType.NUMBER}:
        return Value("float64")
    return (
        ListOf(Value("string")) if metric.accepts <= {OutputType.TAGS, OutputType.LABELS} else Value("string")
    )
