"""Decoding one token after the other, each choice final."""

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import END, Decoding, Hypothesis, Session


class StepwiseDecoding(Decoding):
    """Extends every unfinished sentence by one chosen token at a time; finished ones leave the batch.

    Attributes:
        live: The sentence of each row during a search.
    """

    @abstractmethod
    def choose(self, session: Session) -> Int[Tensor, " rows"]:
        """Returns the next token of every row."""

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sentence."""
        outputs: list[list[int]] = [[] for _ in session.sentence_ids]
        scores = [0.0 for _ in session.sentence_ids]
        self.live: list[int] = session.sentences.tolist()
        while True:
            tokens = self.choose(session)
            chosen = session.log_probabilities.gather(1, tokens[:, None]).squeeze(1)
            unfinished = []
            for row, (sentence, token, score) in enumerate(
                zip(self.live, *_read(tokens, chosen), strict=True)
            ):
                scores[sentence] += score
                if token != END:
                    outputs[sentence].append(int(token))
                    unfinished.append(row)
            if not unfinished:
                return [[Hypothesis(*output)] for output in zip(outputs, scores, strict=True)]
            if len(unfinished) < len(tokens):
                rows = torch.tensor(unfinished, device=tokens.device)
                session.select(rows)
                tokens = tokens.index_select(0, rows)
                self.live = [self.live[row] for row in unfinished]
            session.extend(tokens)


def _read(tokens: Int[Tensor, " rows"], scores: Float[Tensor, " rows"]) -> tuple[list[float], list[float]]:
    """Returns both as numbers; a device is waited for once. Floats hold token numbers below 2**24 exactly."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    first, second = torch.stack([tokens.to(wide), scores.to(wide)]).tolist()
    return first, second
