"""Beam search."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
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
        size: Annotated[int, Field(ge=1, le=1024, description="Live hypotheses of each sentence.")] = 5,
        length_penalty: Annotated[
            float, Field(ge=0, description="0 ranks by probability, 1 by mean log-probability.")
        ] = 1.0,
    ) -> None:
        self.size = size
        self.length_penalty = length_penalty

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns every finished hypothesis, the best of each sentence first."""
        finished: list[list[Hypothesis]] = [[] for _ in session.sentence_ids]
        rows = len(session.sentences)
        device = session.sentences.device
        # In float64 where there is one, so that sums do not depend on how many steps other sentences take.
        widest = torch.float64 if device.type in ("cpu", "cuda") else torch.float32
        scores = torch.zeros(rows, dtype=widest, device=device)
        tokens = torch.empty(rows, 0, dtype=torch.long, device=device)
        while len(scores):
            best = _candidates(session, scores, self.size)
            self._finish(best, session.sentences, tokens, finished)
            done = torch.tensor([len(found) >= self.size for found in finished], device=device)
            live = best.going_on & ~done[session.sentences[best.rows]]
            live &= live.cumsum(dim=1) <= self.size
            rows_kept, scores, chosen = best.rows[live], best.scores[live], best.tokens[live]
            if len(scores):
                session.select(rows_kept)
                session.extend(chosen)
            tokens = torch.cat([tokens.index_select(0, rows_kept), chosen[:, None]], dim=1)
        return [sorted(found, key=self._normalized, reverse=True) for found in finished]

    def _finish(
        self,
        best: "_Candidates",
        sentences: Int[Tensor, " rows"],
        tokens: Int[Tensor, "rows length"],
        finished: list[list[Hypothesis]],
    ) -> None:
        """Adds the hypotheses that end to those of their sentences."""
        ending = best.ending[:, : self.size]
        rows = best.rows[:, : self.size][ending]
        outputs = tokens.index_select(0, rows).tolist()
        scores = best.scores[:, : self.size][ending].tolist()
        for sentence, output, score in zip(sentences[rows].tolist(), outputs, scores, strict=True):
            finished[sentence].append(Hypothesis(output, score))

    def _normalized(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score / math.pow(len(hypothesis.tokens) + 1, self.length_penalty)


@dataclass(frozen=True)
class _Candidates:
    """Continuations of live sentences' hypotheses, the most probable first.

    Attributes:
        scores: Logarithms of their probabilities; minus infinity where there are not so many.
        rows: The rows that they continue.
        tokens: The tokens that they add.
    """

    scores: Float[Tensor, "sentences candidates"]
    rows: Int[Tensor, "sentences candidates"]
    tokens: Int[Tensor, "sentences candidates"]

    @property
    def ending(self) -> Bool[Tensor, "sentences candidates"]:
        return self.scores.isfinite() & (self.tokens == END)

    @property
    def going_on(self) -> Bool[Tensor, "sentences candidates"]:
        return self.scores.isfinite() & (self.tokens != END)


def _candidates(session: Session, scores: Float[Tensor, " rows"], size: int) -> _Candidates:
    """Returns the best 2 * size continuations of each sentence's rows, which stand together."""
    steps, tokens = session.log_probabilities.topk(min(2 * size, session.log_probabilities.shape[1]), dim=-1)
    width = steps.shape[1]
    _, group, counts = session.sentences.unique_consecutive(return_inverse=True, return_counts=True)
    first = counts.cumsum(dim=0) - counts
    place = torch.arange(len(scores), device=scores.device) - first[group]
    # (sentences, live hypotheses, continuations); sentences with fewer live ones are filled up
    totals = scores.new_full((len(counts), size, width), -torch.inf)
    totals[group, place] = scores[:, None] + steps
    best, flat = totals.flatten(1).topk(min(2 * size, size * width), dim=-1)
    rows = (first[:, None] + flat // width).clamp(max=len(scores) - 1)
    return _Candidates(best, rows, tokens[rows, flat % width])
