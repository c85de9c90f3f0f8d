"""A trained model that answers texts of several requests together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
class AnswerOptions:
    """How texts are answered. Those with the same options may be answered in one batch.

    Attributes:
        n_best: Outputs for each text.
        probabilities: Whether answers have the probabilities of all classes.
        max_tokens: Of an output; None for what the task says.
        decoding: Options of the decoding in place of the task's.
        streamed: Whether somebody hears each token when it is chosen.
    """

    n_best: int = 1
    probabilities: bool = False
    max_tokens: int | None = None
    decoding: tuple[tuple[str, float], ...] = ()
    streamed: bool = False


@dataclass(frozen=True)
class RequestedText:
    """A text of a request.

    Attributes:
        question: The text.
        number: Its number in the request, from 0; random choices depend on it.
        on_start: Is called when a search begins. Tokens that came before are then void: a batch that failed,
            as when memory ran out, is searched again in smaller ones.
        on_token: Receives each token of the output, but END, when it is chosen, if the search keeps one
            sequence for each text, as greedy search and sampling do.
        is_done: Whether nobody wants more of the output. A search ends early when all its texts are done.
    """

    question: Question
    number: int
    on_start: Callable[[], None] = lambda: None
    on_token: Callable[[int], None] = lambda _: None
    is_done: Callable[[], bool] = lambda: False


class ServedModel(TrainedModel):
    """A trained model for one thread that answers texts of several requests together.

    Args:
        trained: The model, whose parameters and engine it shares.
    """

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__(trained.directory, trained.experiment, trained.model, trained.processor)
        self.answered_by = self._engine = trained.answered_by
        self._options = AnswerOptions()
        self._texts: Sequence[RequestedText] = ()

    def answer_requested(
        self, texts: Sequence[RequestedText], options: AnswerOptions
    ) -> list[Prediction | PlugformerError]:
        """Returns the same answers as `predict_each` for each request alone."""
        self._texts, self._options = texts, options
        # No engine was compared with a shorter limit, and one may search by itself.
        shorter = options.max_tokens is not None and options.max_tokens < self._allowed.longest
        if options.streamed or options.decoding or shorter:
            self.answered_by = lambda predictor: predictor
        try:
            return self.predict_each(
                [text.question for text in texts], n_best=options.n_best, probabilities=options.probabilities
            )
        finally:
            self._texts, self._options, self.answered_by = (), AnswerOptions(), self._engine

    def predictor(self, n_best: int = 1, *, probabilities: bool = False) -> Any:
        """Returns the model's predictor, which decodes as the texts that are being answered ask for."""
        predictor = super().predictor(n_best, probabilities=probabilities)
        if not isinstance(predictor, GenerativePredictor) or not self._texts:
            return predictor
        decoding, allowed = predictor.decoding, predictor.allowed
        if self._options.decoding:
            block = self.task.decoding
            options = block.options | dict(self._options.decoding)
            decoding = self.registry.create(Kind.DECODING, block.name, **options)
        if self._options.max_tokens is not None:
            allowed = allowed.shortened(self._options.max_tokens)
        return replace(predictor, decoding=RequestDecoding(decoding, self._texts), allowed=allowed)


class RequestDecoding(Decoding):
    """A decoding of texts that have numbers and callbacks of their own.

    Args:
        decoding: What searches.
        texts: The texts, in the order of the sentences' numbers in the session.
    """

    def __init__(self, decoding: Decoding, texts: Sequence[RequestedText]) -> None:
        self._decoding = decoding
        self._texts = texts

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first; those found so far if all are done."""
        texts = [self._texts[row] for row in session.sentence_ids]
        session.sentence_ids = [text.number for text in texts]
        for text in texts:
            text.on_start()
        outputs: list[list[int]] = [[] for _ in texts]
        vars(session)["extend"] = _watched(session, texts, outputs)
        try:
            return self._decoding.search(session)
        except _AllDoneError:
            return [[Hypothesis(output, 0.0)] for output in outputs]


class _AllDoneError(Exception):
    """Nobody wants more of the outputs of a search."""


def _watched(
    session: Session, texts: Sequence[RequestedText], outputs: Sequence[list[int]]
) -> Callable[[Tensor], None]:
    """Returns `session.extend`, which also collects tokens and hands them to callbacks."""
    extend, alone, unread = session.extend, True, list[Tensor]()

    def watched(tokens: Int[Tensor, " rows"]) -> None:
        nonlocal alone
        unread.append(torch.stack([session.sentences, tokens, session.finished.long()]))
        if session.looks:
            steps = torch.cat(unread, dim=1).cpu().split([each.shape[1] for each in unread], dim=1)
            for sentences, chosen, finished in (step.tolist() for step in steps):
                alone = alone and len({*sentences}) == len(sentences)
                for sentence, token, ended in zip(sentences, chosen, finished, strict=True):
                    if alone and not ended and token != END:
                        outputs[sentence].append(token)
                        texts[sentence].on_token(token)
            unread.clear()
            if all(text.is_done() for text in texts):
                raise _AllDoneError
        extend(tokens)

    return watched
