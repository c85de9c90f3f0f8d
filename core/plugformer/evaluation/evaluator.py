"""Scores of a model on a split, during training and afterwards."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import DataError, NotFiniteError, PlugformerError, RegistryError
from plugformer.evaluation.predictor import Predictor
from plugformer.evaluation.report import Report, Score, in_class_order
from plugformer.experiment import Experiment
from plugformer.hooks.specification import EvaluationResult, SampleOutput
from plugformer.interfaces import (
    LikelihoodMetric,
    Likelihoods,
    OutputMetric,
    Prediction,
    SourceMetric,
    as_text,
)
from plugformer.interfaces.decoding import not_finite
from plugformer.registry import Kind
from plugformer.yaml_tree import Key

CHECKED = 200
"""Most examples whose right answers `unscored` gives to metrics."""

OfFamily = OutputMetric | SourceMetric | LikelihoodMetric


@dataclass(frozen=True)
class Evaluator:
    """Measures a model.

    Attributes:
        predictor: Answers with the model.
        metrics: By the names that reports give them.
        classes: Names of the classes in the order of tables; empty if answers are not classes.
        processes: They share the examples, and each gets all results.
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
        """Returns each metric's value; metrics of outputs are measured on the answered rows alone."""

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
        return Report(run, name, scores, len(split), time.perf_counter() - started, statistics=statistics)

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


def aggregated(metric: OfFamily, *given: Any) -> tuple[float, Float[ndarray, "examples statistics"]]:
    """Returns a metric's value, and the statistics that it is the aggregate of.

    Raises:
        RegistryError: The statistics are not finite numbers, one row for each example, or the aggregate is
            not one finite number.
    """
    values = metric.statistics(*given)
    try:
        statistics = np.asarray(values)
    except ValueError:  # rows of different length
        statistics = np.empty(0, dtype=object)
    if statistics.dtype.kind not in "biuf" or not np.ndim(statistics):
        raise _broken(metric, f"the statistics are {_shown(values)}, expected an array of numbers")
    if len(statistics) != len(given[0]):
        raise _broken(metric, f"{len(given[0])} examples have {len(statistics)} rows of statistics")
    finite = np.isfinite(statistics).reshape(len(statistics), -1).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise _broken(
            metric, f"the statistics of example {row + 1} are {statistics[row]}, expected finite numbers"
        )
    return _number(metric, metric.aggregate(statistics), "the aggregate"), statistics


def measure(metric: OfFamily, *given: Any) -> tuple[Score, Float[ndarray, "examples statistics"]]:
    """Returns a metric's score, and each example's statistics that it is the aggregate of.

    Args:
        metric: The metric.
        *given: Arguments of its `statistics`: columns of one length, the number of examples.

    Raises:
        DataError: There is no example.
        RegistryError: The metric returns something else than a score.
    """
    if not len(given[0]):
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
    value, statistics = aggregated(metric, *given)
    low, high = (_number(metric, end, "an end of the interval") for end in metric.interval(statistics))
    score = Score(value=value, low=low, high=high)
    if isinstance(metric, OutputMetric) and (signature := metric.signature(given[1])):
        score["signature"] = signature
    if not isinstance(metric, LikelihoodMetric) and (table := metric.table(*given)) is not None:
        score["table"] = asdict(table)
    return score, statistics


def _number(metric: OfFamily, value: object, what: str) -> float:
    """Returns a value as a float; raises RegistryError if it is not one finite number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number):
            return number
    raise _broken(metric, f"{what} is {_shown(value)}, expected a finite number")


def _shown(value: object) -> str:
    simple = isinstance(value, int | float | str | None)
    return repr(value)[:60] if simple else f"of the type {type(value).__name__}"


def _broken(metric: OfFamily, problem: str) -> RegistryError:
    return RegistryError(
        f"metric {type(metric).__name__}: {problem}; correct the metric: where it is not defined, it "
        "chooses a number, such as 0"
    )


class Validation:
    """Measures a model on the validation split during training.

    Args:
        evaluator: Has the model.
        split: The validation split.
        limit: Number of examples to decode for the metrics of outputs, evenly spread over the split, which
            may be sorted by length; all if None. Other metrics use all examples. Without a metric of outputs
            only the samples are decoded.
        samples: Number of decoded examples to show, evenly spread.
    """

    def __init__(self, evaluator: Evaluator, split: EncodedSplit, *, limit: int | None, samples: int) -> None:
        self.evaluator = evaluator
        self.split = split
        decoded = spread(range(len(split)), limit)
        self.shown = spread(decoded, samples)
        self.rows = decoded if evaluator.output_metrics else self.shown

    def evaluate(self, step: int) -> EvaluationResult:
        """Returns the loss, all metrics and samples after `step` updates.

        Raises:
            NotFiniteError: The loss is infinite or no number.
        """
        started = time.perf_counter()
        right = self.evaluator.likelihoods(self.split)
        if not math.isfinite(right.loss):
            raise NotFiniteError(f"the validation loss after update {step} is {right.loss}")
        predictions = self.evaluator.answers(self.split, self.rows)
        return EvaluationResult(
            step=step,
            loss=right.loss,
            token_accuracy=right.token_accuracy,
            metrics=self.evaluator.values(self.split, self.rows, predictions, right),
            samples=self._samples(self.rows, predictions),
            best=False,
            seconds=time.perf_counter() - started,
        )

    def samples(self) -> list[SampleOutput]:
        """Returns the model's answers to a few examples."""
        return self._samples(self.shown, self.evaluator.answers(self.split, self.shown))

    def _samples(self, rows: Sequence[int], predictions: Sequence[Prediction]) -> list[SampleOutput]:
        outputs = {row: prediction.text for row, prediction in zip(rows, predictions, strict=True)}
        return [
            SampleOutput(self.split.input(row), as_text(self.split.references(row)[0]), outputs[row])
            for row in self.shown
        ]


def spread(rows: Sequence[int], count: int | None) -> Sequence[int]:
    """Returns `count` rows, evenly spread and beginning with the first; all if there are no more."""
    if count is None or count >= len(rows):
        return rows
    return [rows[number * len(rows) // count] for number in range(count)]


def unscored(experiment: Experiment, split: EncodedSplit) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Yields the metrics that refuse right answers, for example tags in another scheme, and their messages.

    The check runs before the training, not at its first evaluation. It aggregates, too, because some metrics
    fail only then.
    """
    rows = spread(range(len(split)), CHECKED)
    references = [split.references(row) for row in rows]
    answers = [right[0] for right in references]
    sources = [split.input(row) for row in rows]
    certain = np.ones(len(rows), dtype=np.int64)
    for index, block in enumerate(experiment.task.evaluation.metrics):
        metric = experiment.create(Kind.METRIC, block)
        try:
            if isinstance(metric, OutputMetric):
                aggregated(metric, answers, references)
            elif isinstance(metric, SourceMetric):
                aggregated(metric, sources, answers, references)
            elif isinstance(metric, LikelihoodMetric):
                aggregated(metric, -0.1 * certain, certain, certain)
        except PlugformerError as error:
            yield ("evaluation", "metrics", index), str(error)
