"""The ways to compute the same answers that are compared at the end of every training."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from plugformer import load
from plugformer.data import EncodedSplit
from plugformer.evaluation import Generator
from plugformer.hooks import Comparison, hookimpl
from plugformer.interfaces import Batch, Generative, Hypothesis, Level, Model, evaluating
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_self_check.agreement import (
    Differences,
    batch_of,
    best,
    cached_and_uncached,
    outputs_apart,
    probabilities,
    probabilities_apart,
)

MORE_PADDING = 3

_DIVERGED = "the training has diverged, parameters are no numbers any more: try a lower learning rate"
_NOT_SAVED = "a component that keeps numbers neither as parameters nor as buffers, so that they are not saved"


class Way(NamedTuple):
    """A comparison to be made.

    Attributes:
        name: Of the two ways to compute the same.
        likely: What is probably wrong if they differ.
        compute: Returns how far they are apart.
    """

    name: str
    likely: str
    compute: Callable[[], Differences]


@hookimpl
def self_check(trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> list[Comparison]:
    """Compares ways to compute the same answers."""
    continues = trained.vocabularies.task_type.level is Level.NEXT_TOKEN
    ways = (_Continuing if continues else _Reading)(trained, split, rows).ways()
    inputs = [split.input(row) for row in rows]
    if not all(parameter.isfinite().all() for parameter in trained.model.parameters()):
        ways = [way._replace(likely=_DIVERGED) for way in ways]
    with evaluating(trained.model):
        return [_compare(way, inputs) for way in ways]


def _compare(way: Way, inputs: Sequence[str]) -> Comparison:
    try:
        differences = way.compute()
    except Exception as error:  # of a component: it is what was to be found out, and the model is saved
        return Comparison(way.name, math.nan, "", way.likely, f"{type(error).__name__}: {error}")
    worst = int(np.argmax(differences))  # what is not a number counts as the largest
    return Comparison(way.name, float(differences[worst]), inputs[worst], way.likely)


def _contracts(*components: str) -> str:
    """Returns the commands that look for the fault in a component alone."""
    return " and ".join(f"`plugformer check {component}`" for component in components)


def _suspects(trained: TrainedModel) -> tuple[str, str]:
    """Returns the attention and the positional encoding of the last stack."""
    settings = trained.task.model
    stack = getattr(settings, trained.architecture.stacks[-1].name)
    attention, position = stack.attention or settings.attention, stack.position or settings.position
    return f"attention/{attention.name}", f"position/{position.name}"


def _loaded(trained: TrainedModel) -> Model:
    """Returns the model that is saved, on the device of the one at hand."""
    return load(trained.directory, trained.registry).model.to(next(trained.model.parameters()).device)


class _Continuing:
    """Ways to continue sequences.

    Cached decoding is that of the task. The other searches are greedy: where two of them part, it can be told
    whether the model finds both tokens equally good.
    """

    def __init__(self, trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> None:
        self.trained, self.split, self.rows = trained, split, rows
        self.batch = batch_of(split, rows, trained.model)

    def ways(self) -> list[Way]:
        attention, position = _suspects(self.trained)
        state = f"what an attention keeps of the past, or positions: {_contracts(attention, position)}"
        padding = f"padding that is read, or rows that are mixed: {_contracts(attention, position)}"
        return [
            Way("cached = uncached", state, self.cached),
            Way("batch = single", padding, self.alone),
            Way("beam of 1 = greedy", f"the search: {_contracts('decoding/beam')}", self.beam),
            Way("saved = loaded", _NOT_SAVED, self.loaded),
        ]

    def cached(self) -> Differences:
        return cached_and_uncached(_predictor(self.trained), self.split, self.rows)

    def alone(self) -> Differences:
        batches = [batch_of(self.split, [row], self.trained.model) for row in self.rows]
        return self._apart(best(_predictor(self.trained, "greedy"), batches))

    def beam(self) -> Differences:
        return self._apart(best(_predictor(self.trained, "beam", size=1), [self.batch]))

    def loaded(self) -> Differences:
        predictor = _predictor(self.trained, "greedy")
        predictor.model = cast("Generative", _loaded(self.trained))
        return self._apart(best(predictor, [self.batch]))

    @cached_property
    def greedy(self) -> list[Hypothesis]:
        return best(_predictor(self.trained, "greedy"), [self.batch])

    def _apart(self, others: list[Hypothesis]) -> Differences:
        return outputs_apart(_predictor(self.trained), self.split, self.rows, self.greedy, others)


def _predictor(trained: TrainedModel, decoding: str = "", **options: int) -> Generator:
    """Returns a model's predictor, with its task's decoding or with a built-in one."""
    predictor = cast("Generator", trained.predictor())
    if decoding:
        predictor.decoding = trained.registry.create(Kind.DECODING, f"plugformer:{decoding}", **options)
    return predictor


class _Reading:
    """Ways to predict from what is read."""

    def __init__(self, trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> None:
        self.trained = trained
        self.batch = batch_of(split, rows, trained.model)
        longest = max(self.batch.source.ids.shape[1], self.batch.target.ids.shape[1])
        self.padded = batch_of(split, rows, trained.model, longest + MORE_PADDING)
        self.singles = [batch_of(split, [row], trained.model) for row in rows]

    def ways(self) -> list[Way]:
        attention, _ = _suspects(self.trained)
        padding = (
            f"padding that is read: {_contracts(attention, f'head/{self.trained.task.model.head.name}')}"
        )
        rows = f"rows that are mixed, or {padding}"
        return [
            Way("batch = single", rows, lambda: self._apart(self.trained.model, self.batch)),
            Way("padded = unpadded", padding, lambda: self._apart(self.trained.model, self.padded)),
            Way("saved = loaded", _NOT_SAVED, lambda: self._apart(_loaded(self.trained), *self.singles)),
        ]

    def _apart(self, other: Model, *batches: Batch) -> Differences:
        return probabilities_apart(
            probabilities(self.trained.model, self.singles), probabilities(other, batches)
        )
