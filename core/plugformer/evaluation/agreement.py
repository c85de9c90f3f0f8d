"""The same answers computed in two ways: how far apart they are, in nats, example by example."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from plugformer.interfaces.batch import Batch, Ragged, Tokens, pad
from plugformer.data.encoding import EncodedSplit
from plugformer.evaluation.predictor import SequencePredictor
from plugformer.interfaces import END, PADDING, Hypothesis, Padding
from plugformer.interfaces.model import EncoderDecoder, Model

Differences = Float[ndarray, " examples"]


def batch_of(split: EncodedSplit, rows: Sequence[int], model: Model) -> Batch:
    """Returns some examples as a batch on the model's device."""
    return split.batch(rows).to(next(model.parameters()).device)


def best(predictor: SequencePredictor, batches: Sequence[Batch]) -> list[Hypothesis]:
    """Returns the best output for each example of some batches."""
    return [hypotheses[0] for batch in batches for hypotheses in predictor.search(batch, 0)]


def cached_and_uncached(
    predictor: SequencePredictor, split: EncodedSplit, rows: Sequence[int]
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
    batch = _given(predictor, split, [rows[number] for number in numbers], hypotheses)
    answers = batch_of(split, rows, model)
    differences: Differences = np.abs(_cached(model, answers) - _uncached(model, answers))
    np.maximum.at(differences, numbers, np.abs(scores - _uncached(model, batch)))
    return differences


def _uncached(model: EncoderDecoder, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, by one pass."""
    found: ndarray = model.likelihoods(batch).log_probabilities.double().cpu().numpy()
    return found


def _cached(model: EncoderDecoder, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, token by token."""
    target, cache = batch.target, model.decoder.start(model.encoder(batch.source))
    total = torch.zeros(len(target.ids), dtype=torch.float64, device=target.ids.device)
    for ids, real, following, counts in zip(
        *(each[:, :-1].split(1, dim=1) for each in (target.ids, target.real)),
        *(each[:, 1:].split(1, dim=1) for each in (target.ids, target.real)),
        strict=True,
    ):
        hidden = model.decoder(Tokens(ids, real, Padding.ANYWHERE), cache)
        scores = model.head.logits(hidden, real).float().log_softmax(dim=-1)[:, 0].gather(1, following)
        total += scores.masked_fill(~counts, 0.0)[:, 0]
    found: ndarray = total.cpu().numpy()
    return found


def outputs_apart(
    predictor: SequencePredictor,
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
    predictor: SequencePredictor, split: EncodedSplit, row: int, one: Hypothesis, other: Hypothesis
) -> float:
    """Returns the difference in log-probability of the first two tokens that are not the same."""
    logits = predictor.model.logits(_given(predictor, split, [row], [one]))[0]
    pairs = zip([*one.tokens, END], [*other.tokens, END], strict=False)
    place, tokens = next((place, pair) for place, pair in enumerate(pairs) if len(set(pair)) == 2)
    first, second = logits[place].float().log_softmax(dim=-1)[list(tokens)].tolist()
    return abs(float(first - second))


def _given(
    predictor: SequencePredictor, split: EncodedSplit, rows: Sequence[int], outputs: Sequence[Hypothesis]
) -> Batch:
    """Returns examples with outputs in place of the right answers."""
    target = pad(Ragged.of([hypothesis.tokens for hypothesis in outputs]), begin=True)
    batch = batch_of(split, rows, predictor.model)
    return replace(batch, target=target.to(batch.source.ids.device))


def label_probabilities(model: Model, batches: Sequence[Batch]) -> Float[Tensor, "examples labels"]:
    """Returns the log-probabilities of all labels for each example of some batches."""
    return torch.cat([model.logits(batch).float().log_softmax(dim=-1) for batch in batches])


def labels_apart(
    ones: Float[Tensor, "examples labels"], others: Float[Tensor, "examples labels"]
) -> Differences:
    """Compares the probabilities of labels."""
    # Where both are minus infinity, their difference would not be a number.
    apart = torch.where(ones == others, 0.0, (ones - others).abs())
    found: ndarray = apart.max(dim=-1).values.double().cpu().numpy()
    return found


def padded(batch: Batch, positions: int = 3) -> Batch:
    """Returns a batch whose sources have some more positions of padding behind them."""
    source = batch.source
    padding = Padding.RIGHT if source.padding is Padding.NONE else source.padding
    ids = functional.pad(source.ids, (0, positions), value=PADDING)
    return replace(batch, source=Tokens(ids, functional.pad(source.real, (0, positions)), padding))
