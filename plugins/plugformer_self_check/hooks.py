"""The self-check at the end of every training: the same answers, computed in two ways each."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer import load
from plugformer.data import EncodedSplit
from plugformer.evaluation import GenerativePredictor
from plugformer.hooks import ConsistencyCheck, hookimpl
from plugformer.interfaces import (
    END,
    Batch,
    Generative,
    Hypothesis,
    Level,
    Model,
    Padding,
    Tokens,
    evaluating,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel

Differences = Float[ndarray, " examples"]
"""Differences between two ways to compute the same, in nats."""

MORE_PADDING = 3

_DIVERGED = "the training has diverged, and parameters are not finite: try a lower learning rate"
_NOT_SAVED = "a component has state in neither parameters nor buffers, which is not saved"


class Way(NamedTuple):
    """Two ways to compute the same.

    Attributes:
        name: Names of both.
        likely: The probable cause of a difference.
        compute: Returns the difference of each example.
    """

    name: str
    likely: str
    compute: Callable[[], Differences]


@hookimpl
def self_check(trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> list[ConsistencyCheck]:
    """Compares ways to compute the same answers."""
    continues = trained.processor.task_type.level is Level.NEXT_TOKEN
    ways = (_Continuing if continues else _Reading)(trained, split, rows).ways()
    inputs = [split.input(row) for row in rows]
    if not all(parameter.isfinite().all() for parameter in trained.model.parameters()):
        ways = [way._replace(likely=_DIVERGED) for way in ways]
    with evaluating(trained.model):
        return [_compare(way, inputs) for way in ways]


def _compare(way: Way, inputs: Sequence[str]) -> ConsistencyCheck:
    try:
        differences = way.compute()
    except Exception as error:  # raised by a component; the model is saved already
        return ConsistencyCheck(way.name, math.nan, "", way.likely, f"{type(error).__name__}: {error}")
    worst = int(np.argmax(differences))  # NaN counts as the largest
    return ConsistencyCheck(way.name, float(differences[worst]), inputs[worst], way.likely)


def _contracts(*components: str) -> str:
    """Returns the commands that check single components."""
    return " and ".join(f"`plugformer check {component}`" for component in components)


def _suspects(trained: TrainedModel) -> tuple[str, str]:
    """Returns the attention and the positional encoding of the last stack."""
    settings = trained.task.model
    stack = getattr(settings, trained.experiment.architecture.stacks[-1].name)
    attention, position = stack.attention or settings.attention, stack.position or settings.position
    return f"attention/{attention.name}", f"position/{position.name}"


def _loaded(trained: TrainedModel) -> Model:
    """Returns the saved model, on the device of the trained one."""
    return load(trained.place, trained.registry, device=trained.device).model


class _Continuing:
    """Comparisons for models that generate.

    Cached decoding uses the search of the task. The other searches are greedy: where two outputs diverge, the
    probabilities of both tokens can be compared.
    """

    def __init__(self, trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> None:
        self.trained, self.split, self.rows = trained, split, rows
        self.batch = batch_of(split, rows, trained.model)

    def ways(self) -> list[Way]:
        attention, position = _suspects(self.trained)
        state = f"the key-value cache of an attention, or positions: {_contracts(attention, position)}"
        padding = f"padding is read, or rows are mixed: {_contracts(attention, position)}"
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


def _predictor(trained: TrainedModel, decoding: str = "", **options: int) -> GenerativePredictor:
    """Returns a model's predictor, with its task's decoding or with a built-in one."""
    predictor = cast("GenerativePredictor", trained.predictor())
    if decoding:
        predictor.decoding = trained.registry.create(Kind.DECODING, f"plugformer:{decoding}", **options)
    return predictor


class _Reading:
    """Comparisons for models that predict labels or tags."""

    def __init__(self, trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> None:
        self.trained = trained
        self.batch = batch_of(split, rows, trained.model)
        longest = max(self.batch.source.ids.shape[1], self.batch.target.ids.shape[1])
        self.padded = batch_of(split, rows, trained.model, longest + MORE_PADDING)
        self.singles = [batch_of(split, [row], trained.model) for row in rows]

    def ways(self) -> list[Way]:
        attention, _ = _suspects(self.trained)
        padding = f"padding is read: {_contracts(attention, f'head/{self.trained.task.model.head.name}')}"
        rows = f"rows are mixed, or {padding}"
        return [
            Way("batch = single", rows, lambda: self._apart(self.trained.model, self.batch)),
            Way("padded = unpadded", padding, lambda: self._apart(self.trained.model, self.padded)),
            Way("saved = loaded", _NOT_SAVED, lambda: self._apart(_loaded(self.trained), *self.singles)),
        ]

    def _apart(self, other: Model, *batches: Batch) -> Differences:
        return probabilities_apart(
            probabilities(self.trained.model, self.singles), probabilities(other, batches)
        )


def batch_of(
    split: EncodedSplit,
    rows: Sequence[int],
    model: Model,
    padding: int | None = None,
    outputs: Sequence[Hypothesis] | None = None,
) -> Batch:
    """Returns examples on the model's device; `outputs` replace the targets, `padding` is a least length."""
    tokens = None if outputs is None else [hypothesis.tokens for hypothesis in outputs]
    return split.batch(rows, padding=padding, outputs=tokens).to(next(model.parameters()).device)


def best(predictor: GenerativePredictor, batches: Sequence[Batch]) -> list[Hypothesis]:
    """Returns the best output for each example of some batches."""
    return [hypotheses[0] for batch in batches for hypotheses in predictor.search(batch, 0)]


def cached_and_uncached(
    predictor: GenerativePredictor, split: EncodedSplit, rows: Sequence[int]
) -> Differences:
    """Compares probabilities computed token by token, on cached states, with those of one pass over all.

    This is done for all that decoding finds, and for the right answers, since a model that has not learned
    much may find nothing but short outputs. Both ways are about the same tokens, so that a choice between two
    of nearly the same probability makes no difference.
    """
    model = predictor.model
    beams = predictor.search(batch_of(split, rows, model), 0)
    numbers = [number for number, hypotheses in enumerate(beams) for _ in hypotheses]
    hypotheses = [hypothesis for beam in beams for hypothesis in beam]
    scores = np.array([hypothesis.score for hypothesis in hypotheses])
    batch = batch_of(split, [rows[number] for number in numbers], model, outputs=hypotheses)
    answers = batch_of(split, rows, model)
    differences: Differences = np.abs(_cached(model, answers) - _uncached(model, answers))
    np.maximum.at(differences, numbers, np.abs(scores - _uncached(model, batch)))
    return differences


def _uncached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, by one pass."""
    log_probabilities: ndarray = model.likelihoods(batch).log_probabilities.cpu().double().numpy()
    return log_probabilities


def _cached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each example's targets, token by token."""
    following, counts = _aligned(*model.targets(batch))
    past, ids = model.begin(batch)
    real = torch.ones_like(ids, dtype=torch.bool)
    total = torch.zeros(len(ids), dtype=torch.float64)  # on the CPU: not every device has float64
    for targets, counted in zip(following.T, counts.T, strict=True):
        hidden = model.step(Tokens(ids[:, None], real[:, None], Padding.ANYWHERE), past)
        scores = model.head.logits(hidden, real[:, None]).float().log_softmax(dim=-1)[:, 0]
        total += scores.gather(1, targets[:, None])[:, 0].masked_fill(~counted, 0.0).cpu()
        ids, real = targets, counted
    log_probabilities: ndarray = total.numpy()
    return log_probabilities


def _aligned(
    targets: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"]
) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns the targets of each row without gaps, and which of them are real."""
    order = (~real).int().argsort(dim=1, stable=True)
    most = int(real.sum(dim=1).max())
    return targets.gather(1, order)[:, :most], real.gather(1, order)[:, :most]


def outputs_apart(
    predictor: GenerativePredictor,
    split: EncodedSplit,
    rows: Sequence[int],
    outputs: Sequence[Hypothesis],
    others: Sequence[Hypothesis],
) -> Differences:
    """Compares outputs of two greedy searches.

    If the tokens are the same, their scores are compared; otherwise the probabilities of the two tokens at
    which the outputs diverge, since tokens of nearly equal probability may be exchanged.
    """
    return np.array(
        [
            abs(one.score - other.score)
            if one.tokens == other.tokens
            else _parting(predictor, split, row, one, other)
            for row, one, other in zip(rows, outputs, others, strict=True)
        ]
    )


def _parting(
    predictor: GenerativePredictor, split: EncodedSplit, row: int, one: Hypothesis, other: Hypothesis
) -> float:
    """Returns the difference in log-probability of the first two tokens that differ."""
    batch = batch_of(split, [row], predictor.model, outputs=[one])
    logits = predictor.model.logits(batch)[0][predictor.model.targets(batch)[1][0]]
    pairs = zip([*one.tokens, END], [*other.tokens, END], strict=False)
    place, tokens = next((place, pair) for place, pair in enumerate(pairs) if len(set(pair)) == 2)
    first, second = logits[place].float().log_softmax(dim=-1)[list(tokens)].tolist()
    return abs(float(first - second))


def probabilities(model: Model, batches: Sequence[Batch]) -> list[Float[Tensor, "..."]]:
    """Returns the head's log-probabilities at the predicted positions of each example."""
    log_probabilities = []
    for batch in batches:
        logits = model.logits(batch).float()
        scores = logits.log_softmax(dim=-1) if logits.shape[-1] > 1 else logits
        real = model.targets(batch)[1]
        log_probabilities += [
            row[real[number]] if row.dim() > 1 else row for number, row in enumerate(scores)
        ]
    return log_probabilities


def probabilities_apart(
    ones: Sequence[Float[Tensor, "..."]], others: Sequence[Float[Tensor, "..."]]
) -> Differences:
    """Compares the log-probabilities of two heads, example by example."""
    # If both are minus infinity, their difference is NaN.
    apart = [
        torch.where(one == other, 0.0, (one - other).abs()) for one, other in zip(ones, others, strict=True)
    ]
    return np.array([float(difference.max()) if difference.numel() else 0.0 for difference in apart])
