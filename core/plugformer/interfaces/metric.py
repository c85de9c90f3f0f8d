"""Metrics: how good a model's answers are, and how sure of that we can be."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces.prediction import OutputType, Value


@dataclass(frozen=True)
class Table:
    """Numbers beside a score, such as a confusion matrix.

    Attributes:
        title: What stands in rows and columns.
        columns: Their names.
        rows: The numbers of each row, by its name.
    """

    title: str
    columns: list[str]
    rows: dict[str, list[int]]


class Metric(ABC):
    """Statistics for each example, and an aggregate over them.

    Metrics come in three families, by what they are computed from: derive a component from `OutputMetric`,
    `SourceMetric` or `LikelihoodMetric`. It is constructed as `SomeMetric(**options)`. Because an aggregate
    is computed from statistics of single examples, intervals and paired comparisons need no new predictions.
    `plugformer_plugins.metric.offline` makes an `evaluate.Metric` of any.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({OutputType.TEXT, OutputType.LABEL})
    """The kinds of answer that it measures."""

    higher_is_better: bool = True
    """Which direction early stopping and the best checkpoint follow."""

    resamples: int = 1000
    """Resamples of the bootstrap that intervals come from; fewer where each is slow."""

    check_examples: Sequence[tuple[Value, Value]] = ()
    """Right answers, each with a wrong one to the same question, for `plugformer check` to try the metric on.

    Only for a metric of answers with a structure, such as tags that mark entities; others are tried on
    English sentences, or on tags, labels or numbers, as they accept.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Metric in cls.__bases__ and cls.__module__ != __name__:
            raise TypeError(
                f"{cls.__name__} derives from Metric itself, "
                "not OutputMetric, SourceMetric or LikelihoodMetric"
            )

    @abstractmethod
    def aggregate(self, statistics: Float[ndarray, "examples statistics"]) -> float:
        """Returns the score of a set of examples, at least one: a finite number, whatever they are.

        A score that is not defined on them, such as the correlation of equal numbers, has a value that the
        metric chooses, such as 0. NaN, infinity or anything else ends an evaluation with an error.
        """

    def interval(
        self, statistics: Float[ndarray, "examples statistics"], level: float = 0.95
    ) -> tuple[float, float]:
        """Returns a confidence interval of the aggregate: by default a percentile bootstrap over examples.

        `resamples` of them, seeded, by `scipy.stats.bootstrap`. Where all resamples score the same, as with a
        single example, both ends are the score: such examples say nothing about its spread. Where resamples
        are biased, as with classes of very few examples, the interval is widened to hold the score.

        Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
        """
        value = self.aggregate(statistics)
        if len(statistics) == 1:
            return value, value
        from scipy.stats import bootstrap  # slow to import, needed only when scores are computed

        found = bootstrap(
            (np.arange(len(statistics)),),
            lambda rows: float(self.aggregate(statistics[rows])),
            n_resamples=self.resamples,
            batch=10,  # so many resamples' rows are in memory at a time
            vectorized=False,
            confidence_level=level,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        return min(float(found.low), value), max(float(found.high), value)


class OutputMetric(Metric):
    """A metric of the outputs that a model gives by itself, against the right ones."""

    @abstractmethod
    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns each example's statistics; an example may have several joint references.

        What a statistic means may depend on the call, as the number of a class does. The score of an example
        may not: `aggregate` of its row is the same, whichever examples stand beside it.
        """

    def signature(self, references: Sequence[Sequence[Any]]) -> str:  # noqa: ARG002 (a default)
        """Returns the signature to report with a score, on one line; empty by default."""
        return ""

    def table(
        self,
        predictions: Sequence[Any],  # noqa: ARG002 (a default)
        references: Sequence[Sequence[Any]],  # noqa: ARG002
    ) -> Table | None:
        """Returns numbers that reports show beside the score; by default none."""
        return None


class SourceMetric(Metric):
    """A metric of the outputs that a model gives by itself, beside the inputs that they answer."""

    @abstractmethod
    def statistics(
        self, sources: Sequence[str], predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns each example's statistics, under the same conditions as those of an `OutputMetric`.

        Args:
            sources: What was to be answered.
            predictions: One output for each example.
            references: One or more right answers for each example.
        """

    def table(
        self,
        sources: Sequence[str],  # noqa: ARG002 (a default)
        predictions: Sequence[Any],  # noqa: ARG002
        references: Sequence[Sequence[Any]],  # noqa: ARG002
    ) -> Table | None:
        """Returns numbers that reports show beside the score; by default none."""
        return None


class LikelihoodMetric(Metric):
    """A metric of the probability of the right answers, each target given the right ones before it.

    It needs no decoding. A sequence's targets are its tokens and END; a classified text has one, its label.
    """

    accepts = frozenset(OutputType) - {OutputType.NUMBER}

    unit: ClassVar[Literal["targets", "characters", "bytes"]] = "targets"
    """What is counted as `targets`: those of the model, or characters or bytes of what they spell."""

    @abstractmethod
    def statistics(
        self,
        log_probabilities: Float[ndarray, " examples"],
        targets: Int[ndarray, " examples"] | Float[ndarray, " examples"],
        correct: Int[ndarray, " examples"],
    ) -> Float[ndarray, "examples statistics"]:
        """Returns each example's statistics.

        Args:
            log_probabilities: Natural logarithm of the probability of all the example's targets together.
            targets: Number of the example's targets, or of its characters or bytes, as `unit` says.
            correct: How many of them are the model's most probable answer.
        """
