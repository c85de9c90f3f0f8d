"""A decoding session: a model that continues a batch of sentences."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.decoding.constraint import Constraint
from plugformer.errors import NotFiniteError
from plugformer.interfaces import END, Batch, Generative, Padding, Session, Tokens


class CachedSession(Session):
    """A model, the rows that it continues, and the constraint of its outputs.

    Each token is computed once: the model keeps the keys and values of the tokens before.

    Args:
        model: The model, in evaluation mode.
        batch: The beginnings; the session reads them when it is created.
        constraint: Of the outputs.
        sentence_ids: Each example's number in the whole input.

    Raises:
        NotFiniteError: The model's scores are not finite; `extend` raises it for later tokens.
    """

    def __init__(
        self, model: Generative, batch: Batch, constraint: Constraint, sentence_ids: list[int]
    ) -> None:
        self.model = model
        self._sentence_ids = sentence_ids
        self._allowed = constraint.start(model.input_lengths(batch), model.room(batch))
        self._sentences = torch.arange(len(sentence_ids), device=batch.device)
        self._log_probabilities = self._next(self._start(batch))

    def _start(self, batch: Batch) -> Int[Tensor, " rows"]:
        """Reads the beginnings but for their last tokens, which it returns."""
        self._past, last = self.model.begin(batch)
        return last

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a token appended to every row."""
        new = tokens[:, None]
        unpadded = Tokens(new, torch.ones_like(new, dtype=torch.bool), Padding.NONE)
        return self.model.step(unpadded, self._past)[:, -1]

    @property
    def sentences(self) -> Int[Tensor, " rows"]:
        """The sentence that each row belongs to."""
        return self._sentences

    @property
    def sentence_ids(self) -> list[int]:
        """Each sentence's number in the whole input."""
        return self._sentence_ids

    @property
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities, minus infinity where it is not allowed."""
        return self._log_probabilities

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row."""
        self._allowed.extend(tokens)
        self._log_probabilities = self._next(tokens)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order."""
        before = self._sentences
        self._sentences = before.index_select(0, rows)
        self._allowed.select(rows)
        self._log_probabilities = self._log_probabilities.index_select(0, rows)
        if len(rows) == len(before) and torch.equal(self._sentences, before):
            self._past.reorder(rows)
        else:
            self._past.select(rows)

    def _next(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        hidden = self._advance(tokens)[:, None]
        logits = self.model.head.logits(hidden, torch.ones_like(tokens, dtype=torch.bool)[:, None])[:, 0]
        log_probabilities = self._allowed.mask(logits.float().log_softmax(dim=-1))
        endless = self._allowed.endless(log_probabilities[:, END])
        if endless.any():
            raise not_finite(min(self._sentence_ids[row] for row in self._sentences[endless].tolist()))
        return log_probabilities


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
