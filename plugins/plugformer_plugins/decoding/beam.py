"""Beam search."""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from pydantic import Field
from torch import Tensor

from plugformer.interfaces import END, Decoding, Hypothesis, Session

_Step = tuple[Tensor, Tensor, Tensor, Tensor]
"""The totals, beams and tokens of candidates, and the places of those that live on."""


class Beam(Decoding):
    """Beam search; ranks outputs by their probability, normalized by length.

    Follows the `size` most probable beginnings of each sentence; size 1 is greedy decoding.

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
        device = session.sentences.device
        # In float64 where there is one, so that sums do not depend on how many steps other sentences take.
        widest = torch.float64 if device.type in ("cpu", "cuda") else torch.float32
        scores = torch.zeros(
            (len(session.sentence_ids), 1), dtype=widest, device=device
        )  # of live hypotheses
        found, unread = _Found(len(scores), self.size), list[_Step]()
        while True:
            totals, beams, following = _candidates(session, scores, 2 * self.size)
            live = totals.isfinite() & (following != END)
            # Every sentence has as many beams: where fewer are live, the best again, with no probability.
            places = (~live).long().argsort(dim=1, stable=True)[:, : self.size]
            dead = ~live.gather(1, places)
            places = places.where(~dead, places[:, :1])
            if places.shape == scores.shape:
                order = _order(beams.gather(1, places))
                places, dead = places.gather(1, order), dead.gather(1, order)
            unread.append((totals, beams, following, places))
            going = None
            if session.looks:
                for step in _on_host(unread):
                    found.follow(*step)
                unread = []
                if found.done.all():
                    return [sorted(each, key=self._normalized, reverse=True) for each in found.finished]
                if session.few(int((~found.done).sum()) * scores.shape[1]):
                    going = torch.from_numpy(found.drop()).to(device)
            first = torch.arange(len(scores), device=device)[:, None] * scores.shape[1]
            rows, following = first + beams.gather(1, places), following.gather(1, places)
            scores = totals.gather(1, places).masked_fill(dead, -torch.inf)
            if going is not None:
                rows, following, scores = (part.index_select(0, going) for part in (rows, following, scores))
            session.select(rows.flatten(), found.sentences.tolist())
            session.extend(following.flatten())

    def _normalized(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score / math.pow(len(hypothesis.tokens) + 1, self.length_penalty)


class _Found:
    """What a search has found: it follows, on the host, what has been chosen on the device.

    Attributes:
        finished: The finished hypotheses of each sentence.
        sentences: The sentences that have rows.
        done: Which of these are done.
    """

    def __init__(self, sentences: int, size: int) -> None:
        self.size = size
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.sentences = np.arange(sentences)
        self.done = np.zeros(sentences, dtype=np.bool)
        self._tokens = np.empty((sentences, 1, 0), dtype=np.int64)  # of live hypotheses

    def follow(
        self,
        totals: Float[ndarray, "sentences candidates"],
        beams: Int[ndarray, "sentences candidates"],
        following: Int[ndarray, "sentences candidates"],
        places: Int[ndarray, "sentences beams"],
    ) -> None:
        """Follows a step: of the candidates, the ending ones are finished, those at `places` live on."""
        ending = np.isfinite(totals) & (following == END) & ~self.done[:, None]
        ending[:, self.size :] = False
        for row, place in np.argwhere(ending):
            hypothesis = Hypothesis(self._tokens[row, beams[row, place]].tolist(), float(totals[row, place]))
            self.finished[self.sentences[row]].append(hypothesis)
        enough = np.array([len(self.finished[sentence]) >= self.size for sentence in self.sentences])
        self.done |= enough | ~(np.isfinite(totals) & (following != END)).any(axis=1)
        beams, following = (np.take_along_axis(part, places, axis=1) for part in (beams, following))
        tokens = self._tokens[np.arange(len(beams))[:, None], beams]
        self._tokens = np.concatenate([tokens, following[:, :, None]], axis=2)

    def drop(self) -> Int[ndarray, " going"]:
        """Drops sentences that are done; returns the places of the others among them."""
        going = np.flatnonzero(~self.done)
        self.sentences, self._tokens, self.done = self.sentences[going], self._tokens[going], self.done[going]
        return going


def _candidates(
    session: Session, scores: Float[Tensor, "sentences beams"], number: int
) -> tuple[Float[Tensor, "sentences candidates"], Int[Tensor, "sentences candidates"], Tensor]:
    """Returns the best continuations of each sentence: their scores, beams and tokens."""
    steps, tokens = session.top(number)
    totals = (scores[:, :, None] + steps.view(*scores.shape, -1)).flatten(1)
    best, flat = totals.topk(min(number, totals.shape[1]), dim=-1)
    return best, flat // steps.shape[1], tokens.view(len(scores), -1).gather(1, flat)


def _order(beams: Int[Tensor, "sentences beams"]) -> Int[Tensor, "sentences beams"]:
    """Returns an order of hypotheses in which most continue the one at their place, so that few rows move.

    Args:
        beams: The places of those that they continue.
    """
    places = torch.arange(1, beams.shape[1] + 1, device=beams.device)
    same = beams[:, :, None] == beams[:, None, :]
    again = same.tril(-1).any(dim=2)  # the others take places that nobody continues
    free = ~(beams[:, :, None] + 1 == places).any(dim=1)
    chosen = (beams + 1).masked_fill(again, 0).argsort(dim=1, stable=True)
    given = places.masked_fill(free, 0).argsort(dim=1, stable=True)
    return torch.empty_like(chosen).scatter_(1, given, chosen)


def _on_host(steps: Sequence[_Step]) -> list[list[ndarray]]:
    """Returns the numbers of some steps; a device is waited for once."""
    parts = [part for step in steps for part in step]
    if parts[0].device.type == "cpu":
        arrays = [part.numpy() for part in parts]
    else:  # floats hold numbers of beams and tokens below 2**24 exactly
        whole = torch.cat([part.flatten().to(parts[0].dtype) for part in parts]).cpu().numpy()
        ends = np.cumsum([part.numel() for part in parts])[:-1]
        arrays = [
            flat.reshape(part.shape).astype(np.float64 if part.is_floating_point() else np.int64)
            for flat, part in zip(np.split(whole, ends), parts, strict=True)
        ]
    return [arrays[start : start + 4] for start in range(0, len(arrays), 4)]
