"""Scores through Hugging Face `evaluate`, from metrics that are installed: nothing is downloaded."""

from collections.abc import Sequence
from tempfile import TemporaryDirectory

from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.errors import DataError
from plugformer.evaluation.report import Score
from plugformer.interfaces import LikelihoodMetric, Metric, OutputMetric, SourceMetric


def score(metric: OutputMetric, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Returns the score of a model's own answers.

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
        found: Score = OfflineOutputMetric(metric, folder).compute(
            predictions=predictions, references=references
        )
    return found


def score_with_sources(
    metric: SourceMetric,
    sources: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
) -> Score:
    """Returns the score of a model's own answers; arguments as of `SourceMetric.statistics`.

    Raises:
        DataError: There is no example.
    """
    _refuse_nothing(metric, len(predictions))
    from plugformer.evaluation.evaluate_metric import OfflineSourceMetric  # slow: only when scoring

    with TemporaryDirectory() as folder:
        found: Score = OfflineSourceMetric(metric, folder).compute(
            sources=sources, predictions=predictions, references=references
        )
    return found


def score_likelihoods(
    metric: LikelihoodMetric,
    log_probabilities: Float[ndarray, " examples"],
    targets: Int[ndarray, " examples"],
    correct: Int[ndarray, " examples"],
) -> Score:
    """Returns the score of the probabilities of right answers; arguments as of `LikelihoodMetric.statistics`.

    Raises:
        DataError: There is no example.
    """
    _refuse_nothing(metric, len(targets))
    from plugformer.evaluation.evaluate_metric import OfflineLikelihoodMetric  # slow: only when scoring

    with TemporaryDirectory() as folder:
        found: Score = OfflineLikelihoodMetric(metric, folder).compute(
            log_probabilities=log_probabilities, targets=targets, correct=correct
        )
    return found


def _refuse_nothing(metric: Metric, examples: int) -> None:
    if not examples:
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
