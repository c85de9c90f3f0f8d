"""Decoding sessions: a model continuing a batch of sentences, with cached states or recomputing all."""

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces.batch import Tokens
from plugformer.decoding.constraint import Progress
from plugformer.errors import NotFiniteError
from plugformer.interfaces import BEGIN, END, Padding, Session
from plugformer.model.encoder import Memory
from plugformer.interfaces.model import EncoderDecoder


class ModelSession(Session):
    """What all sessions share: rows, and what their outputs must respect.

    Args:
        model: The model, in evaluation mode.
        source: The sentences; the encoder runs once, here.
        progress: What each sentence's output must respect.
        keys: Each sentence's number in the whole input.

    Raises:
        NotFiniteError: The model's scores are not finite. Later tokens raise it from `extend`.
    """

    def __init__(self, model: EncoderDecoder, source: Tokens, progress: Progress, keys: list[int]) -> None:
        self.model = model
        self._keys = keys
        self._progress = progress
        self._sentences = torch.arange(len(keys), device=source.ids.device)
        self._start(model.encoder(source))
        self._log_probabilities = self._next(torch.full_like(self._sentences, BEGIN))

    @abstractmethod
    def _start(self, memory: Memory) -> None:
        """Prepares for the first token."""

    @abstractmethod
    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a token appended to every row."""

    @property
    def sentences(self) -> Int[Tensor, " rows"]:
        """The sentence that each row belongs to."""
        return self._sentences

    @property
    def keys(self) -> list[int]:
        """Each sentence's number in the whole input."""
        return self._keys

    @property
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities, minus infinity where it is not allowed."""
        return self._log_probabilities

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row."""
        self._progress.extend(tokens)
        self._log_probabilities = self._next(tokens)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only, in this order."""
        self._sentences = self._sentences.index_select(0, rows)
        self._progress.select(rows)
        self._log_probabilities = self._log_probabilities.index_select(0, rows)

    def _next(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        hidden = self._advance(tokens)[:, None]
        logits = self.model.head.logits(hidden, torch.ones_like(tokens, dtype=torch.bool)[:, None])[:, 0]
        log_probabilities = self._progress.mask(logits.float().log_softmax(dim=-1))
        self._require_finite(log_probabilities[:, END])
        return log_probabilities

    def _require_finite(self, ending: Float[Tensor, " rows"]) -> None:
        """Refuses rows that no search could end.

        A score that is infinite or no number makes all log-probabilities of its row NaN, that of END too. A
        row at its length limit can only end.
        """
        endless = ending.isnan() | (self._progress.at_limit & ending.isneginf())
        if endless.any():
            raise not_finite(min(self._keys[row] for row in self._sentences[endless].tolist()))


def not_finite(key: int) -> NotFiniteError:
    """Returns the error for an example whose scores are not finite.

    Args:
        key: The example's number in the whole input, from 0.
    """
    return NotFiniteError(
        f"the model gives numbers that are not finite for input {key + 1} (counted from 1)\n  its training "
        "has diverged, its saved parameters are damaged, or a component computes wrongly: `plugformer check` "
        "tests components"
    )


class CachedSession(ModelSession):
    """Computes each token once: the decoder keeps what its layers projected of the tokens before."""

    def _start(self, memory: Memory) -> None:
        self._cache = self.model.decoder.start(memory)

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        ids = tokens[:, None]
        step = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), Padding.NONE)
        hidden: Tensor = self.model.decoder(step, self._cache)
        return hidden[:, -1]

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only, in this order."""
        before = self._sentences
        super().select(rows)
        if torch.equal(self._sentences, before):
            self._cache.reorder(rows)
        else:
            self._cache.select(rows)


class RecomputingSession(ModelSession):
    """Computes every token anew at every step: slow, and what cached decoding must agree with."""

    def _start(self, memory: Memory) -> None:
        self._memory = memory
        self._prefix = torch.empty(len(self._keys), 0, dtype=torch.long, device=memory.hidden.device)

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        self._prefix = torch.cat([self._prefix, tokens[:, None]], dim=1)
        whole = Tokens(self._prefix, torch.ones_like(self._prefix, dtype=torch.bool), Padding.NONE)
        hidden: Tensor = self.model.decoder(whole, self.model.decoder.start(self._memory))
        return hidden[:, -1]

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only, in this order."""
        super().select(rows)
        self._prefix = self._prefix.index_select(0, rows)
        self._memory = Memory(self._memory.hidden.index_select(0, rows), self._memory.positions.select(rows))
