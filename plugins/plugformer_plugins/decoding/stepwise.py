"""Decoding one token after the other, each choice final."""

from abc import abstractmethod

from jaxtyping import Int
from torch import Tensor

from plugformer.interfaces import END, Decoding, Hypothesis, Session


class StepwiseDecoding(Decoding):
    """Extends every unfinished sentence by one chosen token at a time; finished ones leave the batch."""

    @abstractmethod
    def choose(self, session: Session) -> Int[Tensor, " rows"]:
        """Returns the next token of every row."""

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sentence."""
        outputs: list[list[int]] = [[] for _ in session.sentence_ids]
        scores = [0.0 for _ in session.sentence_ids]
        while True:
            tokens = self.choose(session)
            chosen = session.log_probabilities.gather(1, tokens[:, None]).squeeze(1)
            for sentence, token, score in zip(
                session.sentences.tolist(), tokens.tolist(), chosen.tolist(), strict=True
            ):
                scores[sentence] += score
                if token != END:
                    outputs[sentence].append(token)
            unfinished = (tokens != END).nonzero().squeeze(1)
            if len(unfinished) == 0:
                return [[Hypothesis(*output)] for output in zip(outputs, scores, strict=True)]
            if len(unfinished) < len(tokens):
                session.select(unfinished)
                tokens = tokens.index_select(0, unfinished)
            session.extend(tokens)
