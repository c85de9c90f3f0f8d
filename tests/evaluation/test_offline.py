"""Scores through `evaluate`, without a network."""

from collections.abc import Sequence
from pathlib import Path

import evaluate
import numpy as np
import pytest

from plugformer.errors import DataError
from plugformer.evaluation.evaluator import measure
from plugformer.interfaces import Metric, OutputMetric
from plugformer_plugins.metric.accuracy import ExactMatch
from plugformer_plugins.metric.likelihood import Perplexity


class Length(OutputMetric):
    """Mean number of characters: a metric that is no proportion."""

    def statistics(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        return np.array([[float(len(prediction))] for prediction in predictions])

    def aggregate(self, statistics: np.ndarray) -> float:
        return float(statistics.mean())


@pytest.fixture(autouse=True)
def no_network_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "cache")


def test_value_and_interval() -> None:
    result = measure(ExactMatch(), ["a", "x", "b"], [["a"], ["y", "x"], ["c"]])[0]
    assert result["value"] == pytest.approx(2 / 3)
    assert 0 < result["low"] < 2 / 3 < result["high"] < 1


def test_a_metric_without_an_interval_of_its_own_is_resampled() -> None:
    result = measure(Length(), ["a", "abc"] * 50, [["a"]] * 100)[0]
    # Standard error 0.1: the percentile interval is about 2 +- 1.96 * 0.1.
    assert result == pytest.approx({"value": 2.0, "low": 1.8, "high": 2.2}, abs=0.03)


@pytest.mark.parametrize("metric", [ExactMatch(), Length()])
@pytest.mark.parametrize("prediction", ["a", "b"])
def test_one_example_gives_an_interval_without_gaps(metric: Metric, prediction: str) -> None:
    result = measure(metric, [prediction], [["a"]])[0]
    assert result["low"] <= result["value"] <= result["high"]


def test_no_example_is_an_error() -> None:
    with pytest.raises(DataError, match="ExactMatch: there are 0 examples to score"):
        measure(ExactMatch(), [], [])
    nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match="Perplexity: there are 0 examples to score"):
        measure(Perplexity(), nothing, none, none)
