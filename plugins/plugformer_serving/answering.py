"""A trained model that answers texts of several requests together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from plugformer.errors import PlugformerError
from plugformer.evaluation import GenerativePredictor
from plugformer.interfaces import (
    END,
    Decoding,
    Example,
    Hypothesis,
    Prediction,
    Session,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel

Question = str | Example
"""A text, or values by column."""


@dataclass(frozen=True)
class Manner:
    """How texts are answered. Those with the same manner may be answered in one batch.

    Attributes:
        n_best: Outputs for each text.
        probabilities: Whether answers have the probabilities of all classes.
        most: Tokens of an output at most; None for what the task says.
        options: Options of the decoding in place of the task's.
    """

    n_best: int = 1
    probabilities: bool = False
    most: int | None = None
    options: tuple[tuple[str, float], ...] = ()


def _ignore(*_: int) -> None:
    """Does nothing with a token, or without one."""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Numbered:
    """A text of a request.

    Attributes:
        question: The text.
        number: Its number in the request, from 0; random choices depend on it.
        hear: Receives each token of the output, but END, when it is chosen, if the search keeps one sequence
            for each text, as greedy search and sampling do.
        begin: Is called when a search begins. Tokens that were heard before are then void: a batch that
            failed, as when memory ran out, is searched again in smaller ones.
        enough: Whether nobody wants more of the output. A search ends early when all its texts have enough.
    """

    question: Question
    number: int
    hear: Callable[[int], None] = _ignore
    begin: Callable[[], None] = field(default=_ignore, kw_only=True)
    enough: Callable[[], bool] = _never


class ServedModel(TrainedModel):
    """A trained model for one thread that answers texts of several requests together.

    Args:
        trained: The model, whose parameters it shares.
    """

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__(trained.directory, trained.experiment, trained.model, trained.processor)
        self._manner = Manner()
        self._texts: Sequence[Numbered] = ()

    def answer_numbered(
        self, texts: Sequence[Numbered], manner: Manner
    ) -> list[Prediction | PlugformerError]:
        """Returns the same answers as `predict_each` for each request alone."""
        self._texts, self._manner = texts, manner
        try:
            return self.predict_each(
                [text.question for text in texts], n_best=manner.n_best, probabilities=manner.probabilities
            )
        finally:
            self._texts, self._manner = (), Manner()

    def predictor(self, n_best: int = 1, *, probabilities: bool = False) -> Any:
        """Returns the model's predictor, which decodes in the manner of the texts that are being answered."""
        predictor = super().predictor(n_best, probabilities=probabilities)
        if not isinstance(predictor, GenerativePredictor) or not self._texts:
            return predictor
        decoding, allowed = predictor.decoding, predictor.allowed
        if self._manner.options:
            block = self.task.decoding
            options = block.options | dict(self._manner.options)
            decoding = self.registry.create(Kind.DECODING, block.name, **options)
        if self._manner.most is not None:
            allowed = allowed.shortened(self._manner.most)
        return replace(predictor, decoding=RequestDecoding(decoding, self._texts), allowed=allowed)


class RequestDecoding(Decoding):
    """A decoding of texts that have numbers and listeners of their own.

    Args:
        decoding: What searches.
        texts: The texts, in the order of the sentences' numbers in the session.
    """

    def __init__(self, decoding: Decoding, texts: Sequence[Numbered]) -> None:
        self._decoding = decoding
        self._texts = texts

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first; those heard so far if that is enough."""
        texts = [self._texts[row] for row in session.sentence_ids]
        session.sentence_ids = [text.number for text in texts]
        for text in texts:
            text.begin()
        outputs: list[list[int]] = [[] for _ in texts]
        vars(session)["extend"] = _heard(session, texts, outputs)
        try:
            return self._decoding.search(session)
        except _AllHaveEnoughError:
            return [[Hypothesis(output, 0.0)] for output in outputs]


class _AllHaveEnoughError(Exception):
    """Nobody wants more of the outputs of a search."""


def _heard(
    session: Session, texts: Sequence[Numbered], outputs: Sequence[list[int]]
) -> Callable[[Tensor], None]:
    """Returns `session.extend`, which also collects tokens and tells who listens."""
    extend, alone, unread = session.extend, True, list[Tensor]()

    def heard(tokens: Int[Tensor, " rows"]) -> None:
        nonlocal alone
        unread.append(torch.stack([session.sentences, tokens, session.finished.long()]))
        if session.looks:
            steps = torch.cat(unread, dim=1).cpu().split([each.shape[1] for each in unread], dim=1)
            for sentences, chosen, finished in (step.tolist() for step in steps):
                alone = alone and len({*sentences}) == len(sentences)
                for sentence, token, ended in zip(sentences, chosen, finished, strict=True):
                    if alone and not ended and token != END:
                        outputs[sentence].append(token)
                        texts[sentence].hear(token)
            unread.clear()
            if all(text.enough() for text in texts):
                raise _AllHaveEnoughError
        extend(tokens)

    return heard
