"""The same answers computed in two ways: how far apart they are, in nats, example by example."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer.data import EncodedSplit
from plugformer.evaluation import Generator
from plugformer.interfaces import END, Batch, Generative, Hypothesis, Model, Padding, Tokens

Differences = Float[ndarray, " examples"]


def batch_of(split: EncodedSplit, rows: Sequence[int], model: Model, padding: int | None = None) -> Batch:
    """Returns some examples as a batch on the model's device, padded to a length at least."""
    return split.batch(rows, padding=padding).to(next(model.parameters()).device)


def best(predictor: Generator, batches: Sequence[Batch]) -> list[Hypothesis]:
    """Returns the best output for each example of some batches."""
    return [hypotheses[0] for batch in batches for hypotheses in predictor.search(batch, 0)]


def cached_and_uncached(predictor: Generator, split: EncodedSplit, rows: Sequence[int]) -> Differences:
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
    batch = _given(predictor, split, [rows[number] for number in numbers], hypotheses)
    answers = batch_of(split, rows, model)
    differences: Differences = np.abs(_cached(model, answers) - _uncached(model, answers))
    np.maximum.at(differences, numbers, np.abs(scores - _uncached(model, batch)))
    return differences


def _uncached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, by one pass."""
    found: ndarray = model.likelihoods(batch).log_probabilities.double().cpu().numpy()
    return found


def _cached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each example's targets, token by token."""
    following, counts = _aligned(*model.targets(batch))
    past, ids = model.begin(batch)
    real = torch.ones_like(ids, dtype=torch.bool)
    total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
    for targets, counted in zip(following.T, counts.T, strict=True):
        hidden = model.step(Tokens(ids[:, None], real[:, None], Padding.ANYWHERE), past)
        scores = model.head.logits(hidden, real[:, None]).float().log_softmax(dim=-1)[:, 0]
        total += scores.gather(1, targets[:, None])[:, 0].masked_fill(~counted, 0.0)
        ids, real = targets, counted
    found: ndarray = total.cpu().numpy()
    return found


def _aligned(
    targets: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"]
) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns each row's targets from the first place on, and where there are any."""
    order = (~real).int().argsort(dim=1, stable=True)
    most = int(real.sum(dim=1).max())
    return targets.gather(1, order)[:, :most], real.gather(1, order)[:, :most]


def outputs_apart(
    predictor: Generator,
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
    predictor: Generator, split: EncodedSplit, row: int, one: Hypothesis, other: Hypothesis
) -> float:
    """Returns the difference in log-probability of the first two tokens that are not the same."""
    batch = _given(predictor, split, [row], [one])
    logits = predictor.model.logits(batch)[0][predictor.model.targets(batch)[1][0]]
    pairs = zip([*one.tokens, END], [*other.tokens, END], strict=False)
    place, tokens = next((place, pair) for place, pair in enumerate(pairs) if len(set(pair)) == 2)
    first, second = logits[place].float().log_softmax(dim=-1)[list(tokens)].tolist()
    return abs(float(first - second))


def _given(
    predictor: Generator, split: EncodedSplit, rows: Sequence[int], outputs: Sequence[Hypothesis]
) -> Batch:
    """Returns examples with outputs in place of the right answers."""
    batch = split.batch(rows, outputs=[hypothesis.tokens for hypothesis in outputs])
    return batch.to(next(predictor.model.parameters()).device)


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
