"""Beam search."""

import math
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field
from torch import Tensor

from plugformer.interfaces import END, Decoding, Hypothesis, Session


class Beam(Decoding):
    """Follows the `size` most probable beginnings of each sentence; size 1 is greedy decoding.

    At each step the 2 * size most probable continuations of a sentence's live hypotheses are candidates.
    Those that end, among the best `size` of them, are finished; the best `size` of those that go on are live.
    A sentence is done when `size` hypotheses are finished, or none is live. Finished hypotheses are ranked by
    log p / length ** length_penalty, END counted in the length: the plain form of the normalization in Wu et
    al. (2016), equation 14, https://arxiv.org/abs/1609.08144, which divides by ((5 + length) / 6) ** alpha.

    Args:
        size: Live hypotheses of each sentence.
        length_penalty: 0 ranks by probability, which favors short outputs; 1 by mean log-probability.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=1, le=1024)] = 5,
        length_penalty: Annotated[float, Field(ge=0)] = 1.0,
    ) -> None:
        self.size = size
        self.length_penalty = length_penalty

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns every finished hypothesis, the best of each sentence first."""
        finished: list[list[Hypothesis]] = [[] for _ in session.sentence_ids]
        device = session.sentences.device
        # In float64 where there is one, so that sums do not depend on how many steps other sentences take.
        widest = torch.float64 if device.type in ("cpu", "cuda") else torch.float32
        # What rows belong to and hold is known here: a device is asked for the candidates of a step alone.
        sentences = np.arange(len(finished))
        scores = torch.zeros((len(sentences), 1), dtype=widest, device=device)  # of each sentence's beams
        tokens = np.empty((len(sentences), 1, 0), dtype=np.int64)
        while len(sentences):
            totals, *numbers = _candidates(session, scores, 2 * self.size)
            beams, following = (number.astype(np.int64) for number in numbers)
            ending = np.isfinite(totals) & (following == END)
            ending[:, self.size :] = False
            for row, place in np.argwhere(ending):
                hypothesis = Hypothesis(tokens[row, beams[row, place]].tolist(), float(totals[row, place]))
                finished[sentences[row]].append(hypothesis)
            live = np.isfinite(totals) & (following != END)
            done = np.array([len(finished[sentence]) >= self.size for sentence in sentences])
            going = np.flatnonzero(live.any(axis=1) & ~done)
            # Every sentence has as many beams: where fewer are live, the best again, with no probability.
            places = (~live[going]).argsort(axis=1, kind="stable")[:, : self.size]
            dead = ~np.take_along_axis(live[going], places, axis=1)
            places = np.where(dead, places[:, :1], places)
            totals, beams, following = (
                np.take_along_axis(found[going], places, axis=1) for found in (totals, beams, following)
            )
            if len(going):
                rows = going[:, None] * scores.shape[1] + beams
                session.select(torch.from_numpy(rows.ravel()).to(device))
                session.extend(torch.from_numpy(following.ravel()).to(device))
            sentences, tokens = sentences[going], tokens[going[:, None], beams]
            tokens = np.concatenate([tokens, following[:, :, None]], axis=2)
            scores = torch.from_numpy(np.where(dead, -np.inf, totals)).to(device)
        return [sorted(found, key=self._normalized, reverse=True) for found in finished]

    def _normalized(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score / math.pow(len(hypothesis.tokens) + 1, self.length_penalty)


def _candidates(
    session: Session, scores: Float[Tensor, "sentences beams"], number: int
) -> Float[ndarray, "3 sentences candidates"]:
    """Returns the best continuations of each sentence: their scores, beams and tokens."""
    steps, tokens = session.top(number)
    totals = (scores[:, :, None] + steps.view(*scores.shape, -1)).flatten(1)
    best, flat = totals.topk(min(number, totals.shape[1]), dim=-1)
    following = tokens.view(len(scores), -1).gather(1, flat)
    # One transfer of all three: floats hold numbers of beams and tokens below 2**24 exactly.
    found = torch.stack([best, (flat // steps.shape[1]).to(best.dtype), following.to(best.dtype)])
    return np.asarray(found.cpu())
