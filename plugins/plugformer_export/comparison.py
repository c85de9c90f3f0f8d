"""The comparison of an engine with the model whose export it has loaded, example by example."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from plugformer.data import EncodedSplit
from plugformer.evaluation import GenerativePredictor, Score, close
from plugformer.interfaces import END, Batch, Level, Model, Prediction, TaskType, evaluating
from plugformer.runs import TrainedModel
from plugformer_export.engine import ExportError, Format, LoadedModel

GROUP = 8
"""Examples of a padded batch; each has short and long ones."""


@dataclass(frozen=True)
class Verification:
    """What the comparison of an export with its run has found.

    Attributes:
        target: The format.
        compute_type: The numbers that the engine computes with.
        split: The split that the examples are from.
        examples: Number of examples.
        tolerance: Most that two logits a and b may differ is `tolerance * (1 + abs(b))`.
        difference: Largest absolute difference of two logits, or of two log-probabilities of targets.
        equal: Number of examples with equal outputs, in batches and alone.
        ties: Number of those whose outputs differ, but are equally probable within the tolerance.
        metrics: Of each metric, the score of the run and that of the export, on these examples.
        seconds: What the run and the export took to answer these examples together and one by one.
        precision: What the run by itself computes in, if not in float32, in which it is compared.
    """

    target: str
    compute_type: str
    split: str
    examples: int
    tolerance: float
    difference: float
    equal: int
    ties: int
    metrics: dict[str, tuple[Score, Score]]
    seconds: tuple[float, float]
    precision: str | None

    @property
    def figures(self) -> dict[str, str]:
        """What it has found, as text for people and model cards."""
        exact = self.compute_type == "float32"
        bound = f", tolerance {self.tolerance:g} (absolute and relative)" if exact else ""
        ties = f", {self.ties} of them ties" if self.ties else ""
        figures = {
            "format": f"{self.target}, {self.compute_type}",
            "compared": f"{self.examples} examples of {self.split}, in padded batches and one by one",
            "largest difference of scores": f"{self.difference:.2g}{bound}",
            "equal outputs": f"{self.equal} of {self.examples}{ties}",
        }
        if self.precision is not None:
            figures["compared with"] = f"the run in float32; by itself it computes in {self.precision}"
        figures["speed"] = f"{self.seconds[0] / self.seconds[1]:.2g} times that of the run on these examples"
        for name, (own, other) in self.metrics.items():
            figures[name] = f"{_in_words(own)} of the run, {_in_words(other)} of the export"
        return figures

    def as_json(self) -> dict[str, Any]:
        """Returns the form that `--json` prints."""
        metrics = {name: {"run": own, "export": other} for name, (own, other) in self.metrics.items()}
        return {**vars(self), "metrics": metrics}


def _in_words(score: Score) -> str:
    return f"{score['value']:.4g} [{score['low']:.4g}, {score['high']:.4g}]"


@dataclass
class Comparison:
    """Compares an engine with a model, example by example."""

    trained: TrainedModel
    target: Format
    engine: LoadedModel
    split: EncodedSplit
    rows: Sequence[int]
    name: str

    def __post_init__(self) -> None:
        self.exact = self.target.compute_type == "float32"
        own = self.trained.evaluator()
        self.own = replace(own, predictor=replace(own.predictor, precision=None))
        self.other = replace(own, predictor=self.engine.answering(own.predictor))

    def result(self, agreement: float) -> Verification:
        """Returns the figures; raises ExportError if they do not agree."""
        target, examples = self.target, len(self.split)
        with evaluating(self.trained.model):
            difference = self._scores()
        equal, ties = self._outputs()
        run = self.trained.directory
        report, other = (each.report(self.split, run, self.name) for each in (self.own, self.other))
        metrics = {name: (score, other.metrics[name]) for name, score in report.metrics.items()}
        for name, scores in metrics.items():
            self._check_metric(name, *scores, ties)
        if not self.exact and equal < agreement * examples:
            self._fail(f"{equal} of {examples} outputs are equal; --agreement is {agreement:g}")
        kept = (target.name, target.compute_type, self.name, examples, target.tolerance)
        mixed = self.trained.predictor().format is not None
        precision = self.trained.task.training.precision if mixed else None
        return Verification(*kept, difference, equal, ties, metrics, self._seconds, precision)

    def _check_metric(self, name: str, own: Score, other: Score, ties: int) -> None:
        low, high, value = own["value"], own["value"], other["value"]
        margin = self.target.tolerance * (1 + abs(low))
        if not self.exact or ties:
            low, high = own["low"], own["high"]
        if not low - margin <= value <= high + margin:
            expected = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
            self._fail(f"{name} is {value:.6g}, expected {expected}")

    def _groups(self) -> Iterator[tuple[str, list[int]]]:
        """Yields the examples alone, then in padded batches."""
        count = len(self.split)
        yield from (("alone", [row]) for row in range(count))
        groups = -(-count // GROUP)
        yield from (("in a batch", list(range(first, count, groups))) for first in range(groups))

    def _scores(self) -> float:
        """Returns the largest difference of scores."""
        model, largest = self.trained.model, 0.0
        for how, rows in self._groups():
            batch = self.split.batch(rows)
            expected, found = scores_of(model, self.engine, batch)
            real = model.targets(batch)[1]
            for number, row in enumerate(rows):
                one, two = (
                    each[number][real[number]] if each.shape[:2] == real.shape else each[number]
                    for each in (expected, found)
                )
                apart = (one - two).abs()
                largest = max(largest, float(apart.max()) if apart.numel() else 0.0)
                if self.exact and not (apart <= self.target.tolerance * (1 + one.abs())).all():
                    worst = f"scores differ by {float(apart.max()):.3g}, tolerance {self.target.tolerance:g}"
                    self._fail(f"{self._example(row)}, {how}: {worst}")
        return largest

    def _outputs(self) -> tuple[int, int]:
        """Returns the numbers of examples with equal outputs, and of ties among them."""
        task_type, count = self.trained.processor.task_type, len(self.split)
        own, ways, taken = self.own.answers(self.split, range(count)), {}, []
        for each in (self.own, self.other):
            started = time.perf_counter()
            ways = {"in a batch": each.answers(self.split, range(count))}
            if type(task_type).rank is TaskType.rank:  # else answers are found among those of all examples
                ways["alone"] = [each.answers(self.split, [row])[0] for row in range(count)]
            taken.append(time.perf_counter() - started)
        self._seconds = taken[0], taken[1]
        different: set[int] = set()
        ties: set[int] = set()
        for how, answers in ways.items():
            for row, (one, two) in enumerate(zip(own, answers, strict=True)):
                if close(one.output, two.output, self.target.tolerance):
                    self._check_score(row, one, two)
                elif not self.exact:
                    different.add(row)
                elif self._is_tie(row):
                    ties.add(row)
                else:
                    outputs = f"{two.text!r:.200}, expected {one.text!r:.200}"
                    self._fail(f"{self._example(row)}, {how}: the output is {outputs}")
        return count - len(different), len(ties)

    def _check_score(self, row: int, own: Prediction, other: Prediction) -> None:
        scored = self.exact and self.engine.has_scores
        if scored and not close(own.score, other.score, self.target.tolerance):
            expected = f"the score of its output is {other.score}, expected {own.score}"
            self._fail(f"{self._example(row)}: {expected}")

    def _is_tie(self, row: int) -> bool:
        """Returns whether both outputs of a generator are equally probable to the model, or their choice is.

        The tokens at which they first differ, or both outputs as a whole, then have the same log-probability
        within the tolerance.
        """
        own, other = self.own.predictor, self.other.predictor
        if not isinstance(own, GenerativePredictor) or not isinstance(other, GenerativePredictor):
            return False
        tolerance, model = self.target.tolerance, self.trained.model
        with own.computing():
            outputs = [each.search(self.split.batch([row]), 0)[0][0].tokens for each in (own, other)]
            batches = [self.split.batch([row], outputs=[tokens]) for tokens in outputs]
            steps = [_log_probabilities(model, each)[model.targets(each)[1]] for each in batches]
        one, two = ([*tokens, END] for tokens in outputs)
        place = next((n for n, pair in enumerate(zip(one, two, strict=False)) if len(set(pair)) == 2), None)
        sums = [float(each.sum()) for each in steps]
        if len(one) == len(two) and abs(sums[0] - sums[1]) <= tolerance * (1 + abs(sums[0])):
            return True
        if place is None or place >= min(map(len, steps)):
            return False
        first, second = (float(each[place]) for each in steps)
        return abs(first - second) <= tolerance * (1 + abs(first))

    def _example(self, row: int) -> str:
        return f"example {self.rows[row] + 1} of {self.name}, {self.split.input(row)!r:.80}"

    def _fail(self, words: str) -> None:
        what = f"{self.target.name}: the export and the run compute different things; it is not used"
        raise ExportError(f"{what}\n  {words}")


def scores_of(model: Model, engine: LoadedModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns the scores of a batch by the model and by the engine."""
    found = engine.logits(batch)
    if found is None:
        found = engine.log_probabilities(batch)
        assert found is not None  # noqa: S101 (engines have one of the two)
        return _log_probabilities(model, batch), found.float()
    expected = model.hidden(batch) if model.level is Level.VECTOR else model.logits(batch)
    return expected.float(), found.float()


def _log_probabilities(model: Model, batch: Batch) -> Tensor:
    """Returns the log-probability of each target."""
    targets = model.targets(batch)[0]
    steps = model.logits(batch).float().log_softmax(dim=-1)
    return steps.gather(-1, targets[..., None])[..., 0]
