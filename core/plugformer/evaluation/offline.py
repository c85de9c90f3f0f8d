"""Scores through Hugging Face `evaluate`, from metrics that are installed: nothing is downloaded."""

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.errors import DataError
from plugformer.evaluation.report import Score
from plugformer.interfaces import LikelihoodMetric, Metric, OutputMetric, SourceMetric


class Measured(NamedTuple):
    """A score, and each example's statistics that it is the aggregate of."""

    score: Score
    statistics: Float[ndarray, "examples statistics"]


def score(metric: OutputMetric, predictions: Sequence[Any], references: Sequence[Sequence[Any]]) -> Score:
    """Returns the score of a model's own answers; arguments as of `measure`."""
    return measure(metric, predictions, references).score


def measure(
    metric: OutputMetric, predictions: Sequence[Any], references: Sequence[Sequence[Any]]
) -> Measured:
    """Returns the score of a model's own answers, and what it is made of.

    Args:
        metric: The metric.
        predictions: One output for each example.
        references: One or more right answers for each example.

    Raises:
        DataError: There is no example.
    """
    _refuse_nothing(metric, len(predictions))
    from plugformer.evaluation.evaluate_metric import OfflineOutputMetric  # slow: only when scoring

    with TemporaryDirectory() as folder:
        offline = OfflineOutputMetric(metric, folder)
        found: Score = offline.compute(predictions=predictions, references=references)
    return Measured(found, offline.statistics)


def score_with_sources(
    metric: SourceMetric,
    sources: Sequence[str],
    predictions: Sequence[Any],
    references: Sequence[Sequence[Any]],
) -> Score:
    """Returns the score of a model's own answers; arguments as of `measure_with_sources`."""
    return measure_with_sources(metric, sources, predictions, references).score


def measure_with_sources(
    metric: SourceMetric,
    sources: Sequence[str],
    predictions: Sequence[Any],
    references: Sequence[Sequence[Any]],
) -> Measured:
    """Returns the score of a model's own answers beside their sources, and what it is made of.

    Arguments are those of `SourceMetric.statistics`.

    Raises:
        DataError: There is no example.
    """
    _refuse_nothing(metric, len(predictions))
    from plugformer.evaluation.evaluate_metric import OfflineSourceMetric  # slow: only when scoring

    with TemporaryDirectory() as folder:
        offline = OfflineSourceMetric(metric, folder)
        found: Score = offline.compute(sources=sources, predictions=predictions, references=references)
    return Measured(found, offline.statistics)


def score_likelihoods(
    metric: LikelihoodMetric,
    log_probabilities: Float[ndarray, " examples"],
    targets: Int[ndarray, " examples"] | Float[ndarray, " examples"],
    correct: Int[ndarray, " examples"],
) -> Score:
    """Returns the score of the probabilities of right answers; arguments as of `measure_likelihoods`."""
    return measure_likelihoods(metric, log_probabilities, targets, correct).score


def measure_likelihoods(
    metric: LikelihoodMetric,
    log_probabilities: Float[ndarray, " examples"],
    targets: Int[ndarray, " examples"] | Float[ndarray, " examples"],
    correct: Int[ndarray, " examples"],
) -> Measured:
    """Returns the score of the probabilities of right answers, and what it is made of.

    Arguments are those of `LikelihoodMetric.statistics`.

    Raises:
        DataError: There is no example.
    """
    _refuse_nothing(metric, len(targets))
    from plugformer.evaluation.evaluate_metric import OfflineLikelihoodMetric  # slow: only when scoring

    with TemporaryDirectory() as folder:
        offline = OfflineLikelihoodMetric(metric, folder)
        found: Score = offline.compute(log_probabilities=log_probabilities, targets=targets, correct=correct)
    return Measured(found, offline.statistics)


def _refuse_nothing(metric: Metric, examples: int) -> None:
    if not examples:
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
