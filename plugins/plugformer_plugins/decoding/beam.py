"""Beam search."""

import math
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
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
        sentences = session.sentences.cpu().numpy()
        scores = torch.zeros(len(sentences), dtype=widest, device=device)
        tokens = np.empty((len(sentences), 0), dtype=np.int64)
        while len(scores):
            totals, *numbers = _candidates(session, scores, sentences, self.size)
            rows, following = (number.astype(np.int64) for number in numbers)
            ending = np.isfinite(totals) & (following == END)
            ending[:, self.size :] = False
            for row, score in zip(rows[ending].tolist(), totals[ending].tolist(), strict=True):
                finished[sentences[row]].append(Hypothesis(tokens[row].tolist(), score))
            done = np.array([len(found) >= self.size for found in finished])
            live = np.isfinite(totals) & (following != END) & ~done[sentences[rows]]
            live &= live.cumsum(axis=1) <= self.size
            rows, chosen = rows[live], following[live]
            scores = torch.from_numpy(totals[live]).to(device)
            if len(scores):
                session.select(torch.from_numpy(rows).to(device))
                session.extend(torch.from_numpy(chosen).to(device))
            sentences = sentences[rows]
            tokens = np.concatenate([tokens[rows], chosen[:, None]], axis=1)
        return [sorted(found, key=self._normalized, reverse=True) for found in finished]

    def _normalized(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score / math.pow(len(hypothesis.tokens) + 1, self.length_penalty)


def _candidates(
    session: Session, scores: Float[Tensor, " rows"], sentences: Int[ndarray, " rows"], size: int
) -> Float[ndarray, "3 sentences candidates"]:
    """Returns the best 2 * size continuations of each sentence's rows: scores, rows and tokens.

    Where there are not so many, the scores are minus infinity. The rows of a sentence must be adjacent.
    """
    device = scores.device
    steps, tokens = session.log_probabilities.topk(min(2 * size, session.log_probabilities.shape[1]), dim=-1)
    width = steps.shape[1]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(sentences)) + 1])
    counts = np.diff(np.append(starts, len(sentences)))
    place = torch.from_numpy(np.arange(len(sentences)) - starts.repeat(counts)).to(device)
    group = torch.from_numpy(np.arange(len(starts)).repeat(counts)).to(device)
    # (sentences, live hypotheses, continuations); sentences with fewer live ones are filled up
    totals = scores.new_full((len(starts), size, width), -torch.inf)
    totals[group, place] = scores[:, None] + steps
    best, flat = totals.flatten(1).topk(min(2 * size, size * width), dim=-1)
    first = torch.from_numpy(starts).to(device)
    rows = (first[:, None] + flat // width).clamp(max=len(scores) - 1)
    # One transfer of all three: floats hold numbers of rows and tokens below 2**24 exactly.
    found = torch.stack([best, rows.to(best.dtype), tokens[rows, flat % width].to(best.dtype)])
    return np.asarray(found.cpu())
