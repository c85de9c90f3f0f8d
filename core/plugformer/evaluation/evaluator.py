"""Scores of a model on a split, during training and afterwards."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import DataError, NotFiniteError, PlugformerError, RegistryError
from plugformer.evaluation.predictor import Predictor
from plugformer.evaluation.report import Report, Score
from plugformer.experiment import Experiment
from plugformer.hooks import EvaluationResult, SampleOutput
from plugformer.interfaces import (
    Batch,
    LikelihoodMetric,
    Likelihoods,
    OutputMetric,
    Prediction,
    SourceMetric,
    TaskType,
    as_text,
)
from plugformer.interfaces.decoding import not_finite
from plugformer.registry import Kind
from plugformer.yaml_tree import Key

CHECKED = 200
"""Maximum number of examples whose right answers `unscored` gives to metrics."""

K = TypeVar("K")
OfFamily = OutputMetric | SourceMetric | LikelihoodMetric


@dataclass(frozen=True)
class Evaluator:
    """Measures a model.

    Attributes:
        predictor: Answers with the model.
        metrics: By the names that reports give them.
        processes: They share the examples, and each gets all results.
        group: Size of the batches, in the order of the split, of a loss that depends on the batch.
    """

    predictor: Predictor
    metrics: Mapping[str, OfFamily]
    processes: Processes = SINGLE_PROCESS
    group: int = 1

    @property
    def output_metrics(self) -> dict[str, OfFamily]:
        """The metrics that need decoding; the others need one pass over the right answers."""
        metrics = self.metrics.items()
        return {name: metric for name, metric in metrics if not isinstance(metric, LikelihoodMetric)}

    def likelihoods(self, split: EncodedSplit) -> Likelihoods:
        """Returns the likelihoods of each example's targets, in main memory; each given those before it."""
        columns, model = np.zeros((len(Likelihoods._fields), len(split))), self.predictor.model
        if model.head.depends_on == "batch":
            for start in self.processes.share(range(0, len(split), self.group)):
                stop = min(start + self.group, len(split))
                batch = split.batch(range(max(stop - self.group, 0), stop))  # the last one as large as others
                with self.predictor.computing():
                    numbers = self._numbers(batch.to(model.device))
                columns[:, start:stop] = np.transpose(numbers[start - stop :])
        elif shared := self.processes.share(range(len(split))):
            columns[:, shared] = np.transpose(self.predictor.computed(split, shared, self._numbers))
        # Rows of another process are zeros here.
        losses, targets, scores, correct = torch.from_numpy(self.processes.total(columns))
        known = None if correct.isnan().any() else correct.long()
        return Likelihoods(losses, targets.long(), scores if model.head.probabilities else None, known)

    def _numbers(self, batch: Batch) -> list[ndarray]:
        """Returns the likelihoods of each example of a batch as numbers, NaN for None."""
        found = self.predictor.model.likelihoods(batch)
        absent = torch.full_like(found.losses, math.nan)
        return [*np.transpose([(absent if part is None else part).cpu().numpy() for part in found])]

    def answers(self, split: EncodedSplit, rows: Sequence[int]) -> list[Prediction]:
        """Returns the model's answers to some rows, in their order."""
        if not rows:
            return []
        predictor, task_type = self.predictor, self.predictor.processor.task_type
        ranks = type(task_type).rank is not TaskType.rank
        compute: Any = predictor.vectors if ranks else predictor.predict
        every = range(len(split)) if ranks else rows
        with self.processes.raise_everywhere():
            results = compute(split, self.processes.share(every))
        shares = self.processes.gather(results)
        found = [shares[place % len(shares)][place // len(shares)] for place in range(len(every))]
        if ranks:
            vectors, examples = torch.stack(found), [split.example(row) for row in every]
            return task_type.rank(vectors[list(rows), 0], vectors, examples, predictor.n_best)
        return found

    def values(
        self, split: EncodedSplit, rows: Sequence[int], answers: Sequence[Prediction], right: Likelihoods
    ) -> dict[str, float]:
        """Returns each metric's value; metrics of outputs are measured on the answered rows alone."""

        def aggregates() -> dict[str, float]:
            columns = arguments(self.metrics, split, rows, answers, right)
            return {name: aggregated(metric, *columns[name])[0] for name, metric in self.metrics.items()}

        return self.processes.on_main(aggregates)

    def report(self, split: EncodedSplit, run: Path, name: str) -> Report:
        """Returns the scores on a whole split, as a report about a run's split of that name.

        Raises:
            NotFiniteError: The model's scores are not finite.
            RegistryError: A metric returns something else than a score.
        """
        started = time.perf_counter()
        rows = range(len(split) if self.output_metrics else 0)
        answers = self.answers(split, rows)
        right = self.likelihoods(split) if len(self.output_metrics) < len(self.metrics) else None
        if right is not None and (broken := right.losses.isnan()).any():
            raise not_finite(int(broken.nonzero()[0]))

        def measure_all() -> dict[str, tuple[Score, ndarray]]:
            columns = arguments(self.metrics, split, rows, answers, right)
            return {name: measure(metric, *columns[name]) for name, metric in self.metrics.items()}

        results = self.processes.on_main(measure_all)
        scores = {name: score for name, (score, _) in results.items()}
        statistics = {name: statistics for name, (_, statistics) in results.items()}
        kept: dict[str, Any] = {"statistics": statistics, "encoded": split, "answers": answers}
        return Report(run, name, scores, len(split), time.perf_counter() - started, **kept)


def arguments(
    metrics: Mapping[K, OfFamily],
    split: EncodedSplit,
    rows: Sequence[int],
    answers: Sequence[Prediction],
    right: Likelihoods | None = None,
) -> dict[K, tuple[Any, ...]]:
    """Returns the arguments of each metric's `statistics`; without `right` only of those of outputs."""
    ranked = [[output.output for output in (answer, *answer.alternatives)] for answer in answers]
    references = [split.references(row) for row in rows]
    reads_sources = any(isinstance(metric, SourceMetric) for metric in metrics.values())
    sources = [split.input(row) for row in rows if reads_sources]
    columns: dict[K, tuple[Any, ...]] = {}
    for name, metric in metrics.items():
        if not isinstance(metric, LikelihoodMetric):
            outputs = [each[: metric.depth] if metric.depth else each[0] for each in ranked], references
            columns[name] = (sources, *outputs) if isinstance(metric, SourceMetric) else outputs
        elif right is not None:
            targets = right.targets.numpy()
            correct = np.zeros_like(targets) if right.correct is None else right.correct.numpy()
            units = targets if metric.unit == "targets" else split.units(metric.unit, targets)
            likely = -right.losses if right.log_probabilities is None else right.log_probabilities
            columns[name] = likely.numpy(), units, correct
    return columns


def aggregated(metric: OfFamily, *given: Any) -> tuple[float, Float[ndarray, "examples statistics"]]:
    """Returns a metric's value, and the statistics that it is the aggregate of.

    Raises:
        RegistryError: The statistics are not numbers, one row for each example, or the aggregate is not one
            finite number.
    """
    statistics = np.asarray(metric.statistics(*given))
    if statistics.dtype.kind not in "biuf" or statistics.shape[:1] != (len(given[0]),):
        described = f"{statistics.dtype} of shape {statistics.shape}"
        message = f"the statistics are {described}, expected numbers for each of {len(given[0])} examples"
        raise RegistryError(f"metric {type(metric).__name__}: {message}")
    return _number(metric, metric.aggregate(statistics)), statistics


def measure(metric: OfFamily, *given: Any) -> tuple[Score, Float[ndarray, "examples statistics"]]:
    """Returns a metric's score, and the statistics of `given` examples that it is the aggregate of.

    Raises:
        DataError: There is no example.
        RegistryError: The metric returns something else than a score.
    """
    if not len(given[0]):
        name = type(metric).__name__
        raise DataError(f"{name}: there are 0 examples to score; check the split and evaluation.limit")
    value, statistics = aggregated(metric, *given)
    low, high = (_number(metric, end) for end in metric.interval(statistics))
    score = Score(value=value, low=low, high=high)
    if isinstance(metric, OutputMetric) and (signature := metric.signature(given[1])):
        score["signature"] = signature
    if (table := metric.table(*given)) is not None:
        score["table"] = table
    return score, statistics


def _number(metric: OfFamily, value: object) -> float:
    """Returns a value as a float; raises RegistryError if it is not one finite number."""
    if isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value):
        return float(value)
    message = f"its score or interval is {value!r:.60}, expected a finite number, such as 0"
    raise RegistryError(f"metric {type(metric).__name__}: {message}")


class Validation:
    """Measures a model on the validation split during training.

    Args:
        evaluator: Has the model.
        split: The validation split.
        limit: Number of examples to decode for the metrics of outputs, evenly spread; all if None. Without
            such a metric only the samples are decoded.
        samples: Number of decoded examples to show, evenly spread.
    """

    def __init__(self, evaluator: Evaluator, split: EncodedSplit, *, limit: int | None, samples: int) -> None:
        self.evaluator = evaluator
        self.split = split
        decoded = spread(range(len(split)), limit)
        self.shown = spread(decoded, samples)
        self.rows = decoded if evaluator.output_metrics else self.shown

    def evaluate(self, step: int) -> EvaluationResult:
        """Returns the loss, all metrics and samples after `step` updates; NotFiniteError if it is none."""
        started = time.perf_counter()
        right = self.evaluator.likelihoods(self.split)
        if not math.isfinite(right.loss):
            raise NotFiniteError(f"the validation loss after update {step} is {right.loss}")
        predictions = self.evaluator.answers(self.split, self.rows)
        answers = dict(zip(self.rows, predictions, strict=True))
        return EvaluationResult(
            step=step,
            loss=right.loss,
            token_accuracy=right.token_accuracy,
            metrics=self.evaluator.values(self.split, self.rows, predictions, right),
            samples=[self._sample(row, answers[row]) for row in self.shown],
            best=False,
            seconds=time.perf_counter() - started,
        )

    def samples(self) -> list[SampleOutput]:
        """Returns the model's answers to a few examples."""
        return list(map(self._sample, self.shown, self.evaluator.answers(self.split, self.shown)))

    def _sample(self, row: int, answer: Prediction) -> SampleOutput:
        return SampleOutput(self.split.input(row), as_text(self.split.references(row)[0]), answer.text)


def spread(rows: Sequence[int], count: int | None) -> Sequence[int]:
    """Returns `count` rows, evenly spread and beginning with the first; all if there are no more."""
    if count is None or count >= len(rows):
        return rows
    return [rows[number * len(rows) // count] for number in range(count)]


def unscored(experiment: Experiment, split: EncodedSplit) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Yields the metrics that refuse right answers, such as tags in another scheme, and their messages."""
    rows = spread(range(len(split)), CHECKED)
    blocks = enumerate(experiment.task.evaluation.metrics)
    metrics: dict[int, Any] = {index: experiment.create(Kind.METRIC, block) for index, block in blocks}
    answers = [Prediction(split.references(row)[0]) for row in rows]
    for index, given in arguments(metrics, split, rows, answers).items():
        try:
            aggregated(metrics[index], *given)
        except PlugformerError as error:
            yield ("evaluation", "metrics", index), str(error)
