"""Decoding one token at a time: greedy search and sampling."""

import random
import sys
from abc import abstractmethod
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from plugformer.interfaces import END, Decoding, Hypothesis, Session


class StepwiseDecoding(Decoding):
    """Extends every unfinished sentence by one chosen token at a time; finished ones leave the batch.

    Attributes:
        live: The sentence of each row during a search.
    """

    @abstractmethod
    def choose(self, session: Session) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Returns the next token of every row, and its log-probability."""

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sentence."""
        outputs: list[list[int]] = [[] for _ in session.sentence_ids]
        scores = [0.0 for _ in session.sentence_ids]
        self.live: list[int] = session.sentences.tolist()
        unread: list[Tensor] = []
        ended = set[int]()
        while True:
            tokens, chosen = self.choose(session)
            # Floats hold numbers of tokens below 2**24 exactly.
            wide = torch.promote_types(chosen.dtype, torch.float32)
            unread.append(torch.stack([tokens.to(wide), chosen.to(wide)]))
            if session.looks:
                for step in torch.stack(unread).tolist():
                    for sentence, token, score in zip(self.live, *step, strict=True):
                        if sentence in ended:
                            continue
                        scores[sentence] += score
                        if token == END:
                            ended.add(sentence)
                        else:
                            outputs[sentence].append(int(token))
                unread = []
                unfinished = [row for row, sentence in enumerate(self.live) if sentence not in ended]
                if not unfinished:
                    return [[Hypothesis(*output)] for output in zip(outputs, scores, strict=True)]
                if session.few(len(unfinished)):
                    rows = torch.tensor(unfinished, device=tokens.device)
                    self.live = [self.live[row] for row in unfinished]
                    session.select(rows, self.live)
                    tokens = tokens.index_select(0, rows)
            session.extend(tokens)


class Greedy(StepwiseDecoding):
    """Always takes the most probable token.

    See https://docs.pytorch.org/docs/stable/generated/torch.argmax.html.
    """

    def choose(self, session: Session) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Returns the most probable next token of every row, and its log-probability."""
        best, tokens = session.top(1)
        return tokens[:, 0], best[:, 0]


class Sampling(StepwiseDecoding):
    """Draws tokens at random, with temperature, top-k and top-p.

    Draws each token at random from softmax(log p / temperature), restricted to its most probable tokens.

    top_k keeps the k most probable tokens (https://arxiv.org/abs/1805.04833, section 5); top_p then keeps the
    smallest set of those that holds the share p of the probability (nucleus sampling,
    https://arxiv.org/abs/1904.09751, section 3.1). Every sentence draws from a stream of its own, given by
    the seed and its number in the input, so that outputs do not depend on how sentences are batched.

    Args:
        temperature: Below 1 sharpens the distribution, above 1 flattens it.
        top_k: Number of tokens to draw from; None for all.
        top_p: Share of probability to draw from.
        seed: Decides all random choices.
    """

    def __init__(
        self,
        *,
        temperature: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0,
        top_k: Annotated[int, Field(ge=1)] | None = None,
        top_p: Annotated[float, Field(ge=1e-9, le=1)] = 1.0,
        seed: Annotated[int, Field(ge=0)] = 1,
    ) -> None:
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed
        self._streams: list[random.Random] = []

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns one sampled hypothesis for each sentence."""
        # Not for cryptography: reproducible streams that a string can seed.
        self._streams = [random.Random(f"{self.seed}/{key}") for key in session.sentence_ids]  # noqa: S311
        return super().search(session)

    def choose(self, session: Session) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Returns a random next token of every row, by inverting the cumulative distribution."""
        best, tokens = session.top(sys.maxsize if self.top_k is None else self.top_k)
        probabilities = (best / self.temperature).softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= self.top_p, 0.0)
        # From pinned memory, a GPU takes them when it is there; nobody waits.
        uniform = torch.tensor(
            [self._streams[sentence].random() for sentence in self.live], pin_memory=probabilities.is_cuda
        ).to(probabilities.device, non_blocking=True)
        cumulative = probabilities.cumsum(dim=-1)
        position = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)
        possible = (probabilities > 0).sum(dim=-1, keepdim=True)
        chosen = position.minimum(possible - 1)
        return tokens.gather(1, chosen).squeeze(1), best.gather(1, chosen).squeeze(1)
