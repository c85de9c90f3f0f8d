"""What a task's baselines score where its model is measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.preparation import PreparedData
from plugformer.errors import DataError, described
from plugformer.evaluation.evaluator import OfFamily, arguments, measure, spread
from plugformer.evaluation.report import BaselineScores, Report, Score
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    Baseline,
    Example,
    Level,
    LikelihoodBaseline,
    LikelihoodMetric,
    Likelihoods,
    OutputBaseline,
    TaskType,
)
from plugformer.registry import Kind
from plugformer.reproducibility import generator_states, restore_generators

Metrics = Mapping[str, OfFamily]


def measure_baselines(
    experiment: Experiment, data: PreparedData, reports: Mapping[str, Report], notify: Callable[[str], None]
) -> dict[str, dict[str, BaselineScores]]:
    """Returns the scores of the task's baselines, by split and name; one that fails is named and left out.

    Args:
        experiment: Names the baselines and the metrics.
        data: Has the training examples.
        reports: The scores of the model by split.
        notify: Receives messages for people.
    """
    found: dict[str, dict[str, BaselineScores]] = {split: {} for split in reports}
    blocks = experiment.task.evaluation.metrics
    metrics: Metrics = {block.score_name: experiment.create(Kind.METRIC, block) for block in blocks}
    for block in experiment.baselines:
        baseline: Baseline = experiment.create(Kind.BASELINE, block)
        measured = {name: metric for name, metric in metrics.items() if _has_answers(baseline, metric)}
        if not measured:
            continue
        before = generator_states()
        try:
            counts = _fit(baseline, data)
            for split, report in reports.items():
                scores = _scores(baseline, report.encoded, measured, data.processor.task_type)
                unbeaten = _unbeaten(measured, report.metrics, scores)
                found[split][block.name] = BaselineScores(scores, *counts, unbeaten)
        except Exception as error:  # a training does not fail at its end for what it is compared with
            notify(f"WARNING: baseline {block.name!r} is left out: {described(error)}")
        restore_generators(before)
    return found


def _has_answers(baseline: Baseline, metric: OfFamily) -> bool:
    """Returns whether a metric measures what a baseline gives: probabilities of tokens, or outputs."""
    if isinstance(metric, LikelihoodMetric):
        return isinstance(baseline, LikelihoodBaseline) and metric.probabilities
    return isinstance(baseline, OutputBaseline)


def _fit(baseline: Baseline, data: PreparedData) -> tuple[int, int | None]:
    """Has a baseline learn; returns the number of its examples, and of all if nobody has to read them."""
    train, available = data.splits.get("train"), None
    if data.streamed is not None:
        first = islice(data.streamed.stream, min(baseline.limit, data.streamed.buffer))
        train = data.streamed.encode(list(first), SplitStats())
    if train is None:
        raise DataError("none of the first training examples can be read")
    if data.streamed is None:
        available = len(train)
    limit = baseline.limit
    if isinstance(baseline, LikelihoodBaseline):
        limit = max(1, limit * len(train) // int(train.lengths.sum()))
    rows = spread(range(len(train)), limit)
    if isinstance(baseline, LikelihoodBaseline):
        baseline.fit(train.sequences(rows), data.processor.sizes.outputs)
    elif isinstance(baseline, OutputBaseline):
        task_type, examples = data.processor.task_type, train.examples(rows)
        outputs = [task_type.references(example)[0] for example in examples]
        baseline.fit(_questions(task_type, examples), outputs)
    return len(rows), available


def _questions(task_type: TaskType, examples: Sequence[Example]) -> list[Example]:
    names = [column.name for column in task_type.columns if column.role == "input"]
    return [{name: example[name] for name in names if name in example} for example in examples]


def _scores(
    baseline: Baseline, split: EncodedSplit, metrics: Metrics, task_type: TaskType
) -> dict[str, Score]:
    """Returns the scores of a baseline on a split, without their tables."""
    columns: Mapping[str, Any]
    if isinstance(baseline, OutputBaseline):
        rows = range(len(split))
        ranks, cut = type(task_type).rank is not TaskType.rank, task_type.level is Level.TOKEN
        right = [split.references(row)[0] for row in rows if ranks or cut]
        candidates = [*dict.fromkeys(right)] if ranks else []
        depth = max(1, *(metric.depth for metric in metrics.values()))
        answers = baseline.answer(_questions(task_type, split.examples(rows)), candidates, depth)
        if cut:  # words that a model does not read have no reference
            pairs = zip(answers, right, strict=True)
            answers = [replace(answer, output=answer.output[: len(known)]) for answer, known in pairs]
        columns = arguments(metrics, split, rows, answers)
    elif isinstance(baseline, LikelihoodBaseline):
        likely = baseline.log_probabilities(split.sequences(range(len(split))))
        total = torch.tensor([float(row.sum()) for row in likely], dtype=torch.float64)
        counts = torch.tensor([len(row) for row in likely])
        columns = arguments(metrics, split, (), (), Likelihoods(-total, counts, total, None))
    scores = {name: measure(metric, *columns[name])[0] for name, metric in metrics.items()}
    for score in scores.values():
        score.pop("table", None)
    return scores


def _unbeaten(metrics: Metrics, model: Mapping[str, Score], baseline: Mapping[str, Score]) -> str:
    """Returns the first metric if the model is not better by it; nothing if it is, or was not measured."""
    name, metric = next(iter(metrics.items()))
    if name not in model:
        return ""
    ours, simple = model[name]["value"], baseline[name]["value"]
    return "" if (ours > simple if metric.higher_is_better else ours < simple) else name
