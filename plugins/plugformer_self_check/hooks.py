"""The ways to compute the same answers that are compared at the end of every training."""

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
"""How far two ways are apart, in nats."""

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
def self_check(trained: TrainedModel, split: EncodedSplit, rows: Sequence[int]) -> list[ConsistencyCheck]:
    """Compares ways to compute the same answers."""
    continues = trained.vocabularies.task_type.level is Level.NEXT_TOKEN
    ways = (_Continuing if continues else _Reading)(trained, split, rows).ways()
    inputs = [split.input(row) for row in rows]
    if not all(parameter.isfinite().all() for parameter in trained.model.parameters()):
        ways = [way._replace(likely=_DIVERGED) for way in ways]
    with evaluating(trained.model):
        return [_compare(way, inputs) for way in ways]


def _compare(way: Way, inputs: Sequence[str]) -> ConsistencyCheck:
    try:
        differences = way.compute()
    except Exception as error:  # of a component: it is what was to be found out, and the model is saved
        return ConsistencyCheck(way.name, math.nan, "", way.likely, f"{type(error).__name__}: {error}")
    worst = int(np.argmax(differences))  # what is not a number counts as the largest
    return ConsistencyCheck(way.name, float(differences[worst]), inputs[worst], way.likely)


def _contracts(*components: str) -> str:
    """Returns the commands that look for the fault in a component alone."""
    return " and ".join(f"`plugformer check {component}`" for component in components)


def _suspects(trained: TrainedModel) -> tuple[str, str]:
    """Returns the attention and the positional encoding of the last stack."""
    settings = trained.task.model
    stack = getattr(settings, trained.experiment.architecture.stacks[-1].name)
    attention, position = stack.attention or settings.attention, stack.position or settings.position
    return f"attention/{attention.name}", f"position/{position.name}"


def _loaded(trained: TrainedModel) -> Model:
    """Returns the model that is saved, on the device of the one at hand."""
    return load(trained.place, trained.registry, device=trained.device).model


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


def _predictor(trained: TrainedModel, decoding: str = "", **options: int) -> GenerativePredictor:
    """Returns a model's predictor, with its task's decoding or with a built-in one."""
    predictor = cast("GenerativePredictor", trained.predictor())
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


def batch_of(
    split: EncodedSplit,
    rows: Sequence[int],
    model: Model,
    padding: int | None = None,
    outputs: Sequence[Hypothesis] | None = None,
) -> Batch:
    """Returns examples, or outputs in their place, on the model's device, padded to a length at least."""
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
    found = predictor.search(batch_of(split, rows, model), 0)
    numbers = [number for number, hypotheses in enumerate(found) for _ in hypotheses]
    hypotheses = [hypothesis for each in found for hypothesis in each]
    scores = np.array([hypothesis.score for hypothesis in hypotheses])
    batch = batch_of(split, [rows[number] for number in numbers], model, outputs=hypotheses)
    answers = batch_of(split, rows, model)
    differences: Differences = np.abs(_cached(model, answers) - _uncached(model, answers))
    np.maximum.at(differences, numbers, np.abs(scores - _uncached(model, batch)))
    return differences


def _uncached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, by one pass."""
    found: ndarray = model.likelihoods(batch).log_probabilities.cpu().double().numpy()
    return found


def _cached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each example's targets, token by token."""
    following, counts = _aligned(*model.targets(batch))
    past, ids = model.begin(batch)
    real = torch.ones_like(ids, dtype=torch.bool)
    total = torch.zeros(len(ids), dtype=torch.float64)  # in main memory: not every device has it
    for targets, counted in zip(following.T, counts.T, strict=True):
        hidden = model.step(Tokens(ids[:, None], real[:, None], Padding.ANYWHERE), past)
        scores = model.head.logits(hidden, real[:, None]).float().log_softmax(dim=-1)[:, 0]
        total += scores.gather(1, targets[:, None])[:, 0].masked_fill(~counted, 0.0).cpu()
        ids, real = targets, counted
    found: ndarray = total.numpy()
    return found


def _aligned(
    targets: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"]
) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns each row's targets from the first place on, and where there are any."""
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

    Where the tokens are the same, their scores are compared. Where they are not, the two tokens at which the
    outputs part: only those of nearly the same probability may be taken for one another.
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
    """Returns the difference in log-probability of the first two tokens that are not the same."""
    batch = batch_of(split, [row], predictor.model, outputs=[one])
    logits = predictor.model.logits(batch)[0][predictor.model.targets(batch)[1][0]]
    pairs = zip([*one.tokens, END], [*other.tokens, END], strict=False)
    place, tokens = next((place, pair) for place, pair in enumerate(pairs) if len(set(pair)) == 2)
    first, second = logits[place].float().log_softmax(dim=-1)[list(tokens)].tolist()
    return abs(float(first - second))


def probabilities(model: Model, batches: Sequence[Batch]) -> list[Float[Tensor, "..."]]:
    """Returns the head's log-probabilities at the predicted places of each example."""
    found = []
    for batch in batches:
        logits = model.logits(batch).float()
        scores = logits.log_softmax(dim=-1) if logits.shape[-1] > 1 else logits
        real = model.targets(batch)[1]
        found += [row[real[number]] if row.dim() > 1 else row for number, row in enumerate(scores)]
    return found


def probabilities_apart(
    ones: Sequence[Float[Tensor, "..."]], others: Sequence[Float[Tensor, "..."]]
) -> Differences:
    """Compares what heads give, example by example."""
    # Where both are minus infinity, their difference would not be a number.
    apart = [
        torch.where(one == other, 0.0, (one - other).abs()) for one, other in zip(ones, others, strict=True)
    ]
    return np.array([float(each.max()) if each.numel() else 0.0 for each in apart])
