"""Metrics: scores of answers, with confidence intervals; and baselines, whose scores a model has to beat."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces.prediction import Level, OutputType, Prediction
from plugformer.interfaces.task_type import Example, TaskType


class Metric(ABC):
    """Statistics for each example, and an aggregate over them.

    Derive a component from `OutputMetric`, `SourceMetric` or `LikelihoodMetric`. It is constructed as
    `SomeMetric(**options)`.

    Attributes:
        accepts: The types of outputs that it measures.
        higher_is_better: The direction for early stopping and the best checkpoint.
        depth: If not 0, predictions are lists of at most so many outputs of each example, the best first.
        resamples: Number of bootstrap resamples for intervals.
        check_examples: Pairs of a right and a wrong answer for `plugformer check`: of answers with a
            structure, such as tags of entities, or those that a learned metric knows.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({OutputType.TEXT, OutputType.LABEL})
    higher_is_better: bool = True
    depth: int = 0
    resamples: int = 1000
    check_examples: Sequence[tuple[Any, Any]] = ()

    @abstractmethod
    def aggregate(self, statistics: Float[ndarray, "examples statistics"]) -> float:
        """Returns the score of one or more examples: a finite number, such as 0 where it is not defined."""

    def interval(
        self, statistics: Float[ndarray, "examples statistics"], level: float = 0.95
    ) -> tuple[float, float]:
        """Returns a confidence interval of the aggregate: by default a seeded percentile bootstrap.

        Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3. The interval contains the
        score. For a single example both ends are the score.
        """
        value = self.aggregate(statistics)
        if len(statistics) == 1:
            return value, value
        from scipy.stats import bootstrap  # slow to import, needed only when scores are computed

        interval = bootstrap(
            (np.arange(len(statistics)),),
            lambda rows: float(self.aggregate(statistics[rows])),
            n_resamples=self.resamples,
            batch=10,  # resamples in memory at a time
            vectorized=False,
            confidence_level=level,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        return min(float(interval.low), value), max(float(interval.high), value)

    def table(self, *columns: Any, **named: Any) -> dict[str, Any] | None:  # noqa: ARG002 (a default)
        """Returns numbers to show with a score, such as a confusion matrix; none by default.

        The arguments are those of `statistics`. The result has a `title`, the names of `columns`, and `rows`
        by name, each a list of integers.
        """
        return None


class OutputMetric(Metric):
    """A metric of a model's outputs and the references."""

    @abstractmethod
    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns each example's statistics, from which `aggregate` computes its score by itself, too."""

    def signature(self, references: Sequence[Sequence[Any]]) -> str:  # noqa: ARG002 (a default)
        """Returns the signature to report with a score, on one line; empty by default."""
        return ""


class SourceMetric(Metric):
    """A metric of a model's outputs, the references and the inputs."""

    @abstractmethod
    def statistics(
        self, sources: Sequence[str], predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns each example's statistics, as in `OutputMetric`; `sources` are the inputs."""


class LikelihoodMetric(Metric):
    """A metric of the probabilities of the targets under teacher forcing, without decoding.

    The targets of a generated sequence are its tokens and END; a classified text has one, its label.
    """

    accepts = frozenset(OutputType) - {OutputType.NUMBER, OutputType.NUMBERS}

    unit: ClassVar[Literal["targets", "characters", "bytes"]] = "targets"
    """What `targets` counts: the model's targets, or the characters or bytes of their text."""
    probabilities: ClassVar[bool] = True
    """Whether it needs the `probabilities` of a head."""

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


class Baseline(ABC):
    """A simple method for a task, learned in seconds from the training data of the model.

    Derive a component from `OutputBaseline` or `LikelihoodBaseline`. It is constructed as
    `SomeBaseline(**options)`. At the end of a training it is measured by the task's metrics, on the splits
    that the model is measured on. The same examples give the same answers: it draws nothing from the random
    generators of Python, NumPy and PyTorch that the whole process shares.

    Attributes:
        limit: The most that it learns from: training examples, evenly spread; or the tokens of these.
    """

    limit: ClassVar[int]

    @classmethod
    @abstractmethod
    def fits(cls, task_type: TaskType) -> bool:
        """Returns whether it can learn tasks of this type."""


class OutputBaseline(Baseline):
    """A baseline that answers. Metrics of outputs measure it.

    Attributes:
        accepts: The types of outputs that it can learn.
    """

    accepts: ClassVar[frozenset[str]]
    limit = 50_000

    @classmethod
    def fits(cls, task_type: TaskType) -> bool:
        """Returns whether it accepts the type of the outputs."""
        return task_type.output_type in cls.accepts

    @abstractmethod
    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Learns from examples: the values of their input columns by name, and the right output of each."""

    @abstractmethod
    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the answer to each question.

        Args:
            questions: The values of input columns by name.
            candidates: The different outputs among which a task that ranks, such as retrieval, finds its
                answers; none for other tasks.
            n_best: How many outputs metrics look at: those after the best are its `alternatives`, if there
                are any.
        """


class LikelihoodBaseline(Baseline):
    """A baseline of generated tokens, without their inputs. Metrics of probabilities measure it.

    A sequence is what a model predicts at once, such as a piece of a packed text: first a token that is
    given, then those that are predicted, END included.
    """

    limit = 2_000_000

    @classmethod
    def fits(cls, task_type: TaskType) -> bool:
        """Returns whether tasks of the type generate tokens."""
        return task_type.level is Level.NEXT_TOKEN

    @abstractmethod
    def fit(self, sequences: Sequence[Int[ndarray, " length"]], vocabulary: int) -> None:
        """Learns from sequences of token ids, which are less than `vocabulary`."""

    @abstractmethod
    def log_probabilities(
        self, sequences: Sequence[Int[ndarray, " length"]]
    ) -> list[Float[ndarray, " predicted"]]:
        """Returns the log-probability of each token after the first, given those before it."""
