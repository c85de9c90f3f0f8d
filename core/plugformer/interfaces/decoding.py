"""Decoding: the search for output sequences, its sessions, and the outputs that it may return."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.errors import NotFiniteError
from plugformer.interfaces.batch import Batch, Tokens
from plugformer.interfaces.model import Generative
from plugformer.interfaces.position import Padding
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, UNKNOWN, Tokenizer


@dataclass(frozen=True)
class Hypothesis:
    """The token ids of an output without BEGIN and END, and its log-probability in nats, END included."""

    tokens: list[int]
    score: float


class AllowedTokens:
    """Which tokens may follow each row of a batch, by the length of its output; BEGIN and PADDING never may.

    A subclass that forbids more overrides `mask`, and `extend` and `select` if it keeps a state of each row.
    Outputs have `least` to `most` tokens, END not counted, and none that is in `never`.
    """

    def __init__(
        self,
        vocabulary: int,
        least: Int[Tensor, " rows"],
        most: Int[Tensor, " rows"],
        *,
        never: tuple[int, ...] = (),
    ) -> None:
        self.length = 0
        self.least, self.most = least, most
        # On the host: from the first of these lengths to the second, every row may end or be extended.
        self._free_from, self._free_to = torch.stack([least.max(), most.min()]).tolist()
        penalties = torch.zeros(vocabulary)
        penalties[[PADDING, BEGIN, *never]] = -torch.inf
        self._penalties = penalties.to(least.device)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for forbidden tokens, and the other values unchanged; NaN stays NaN."""
        masked = log_probabilities + self._penalties
        if not self._free_from <= self.length < self._free_to:
            masked += torch.where(self.length < self.most, 0.0, -torch.inf)[:, None]
            may_end = torch.where(self.least <= self.length, 0.0, -torch.inf)
            masked[:, END] = log_probabilities[:, END] + may_end
        return masked

    def endless(self, ending: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Returns the rows that no search can end: the log-probability of END is NaN, or END impossible."""
        if self.length < self._free_to:
            return ending.isnan()
        return ending.isnan() | ((self.most <= self.length) & ending.isneginf())

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:  # noqa: ARG002 (for subclasses)
        """Appends one token to every row."""
        self.length += 1

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order."""
        self.least = self.least.index_select(0, rows)
        self.most = self.most.index_select(0, rows)


class Constraint:
    """The outputs that a task allows: texts of some lengths.

    The hook `output_pattern` can replace it by a subclass.

    Args:
        tokenizer: The trained tokenizer of the output.
        positions: Most positions that the model can process, BEGIN included.
        max_length: `decoding.max_length`: the longest output in tokens, a number or `source+N`.
        length: `decoding.length`: the only length of an output, a number or `source`; replaces `max_length`.
    """

    def __init__(
        self, tokenizer: Tokenizer, positions: int, *, max_length: int | str, length: int | str | None = None
    ) -> None:
        setting = max_length if length is None else length
        self._vocabulary = tokenizer.size
        self._exact = length is not None
        self._on_source = isinstance(setting, str)
        self._tokens = int(setting.removeprefix("source") or 0) if isinstance(setting, str) else setting
        self._limit = positions - 1

    @property
    def longest(self) -> int:
        """The longest output of any source."""
        return self._limit if self._on_source else min(self._tokens, self._limit)

    def bounds(
        self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Returns the fewest and the most tokens of each example's output.

        `lengths` are those of the inputs, without special tokens; `room` is what the model has for outputs.
        """
        most = (lengths * self._on_source + self._tokens).clamp(max=self._limit).minimum(room)
        return most if self._exact else torch.zeros_like(most), most

    def start(self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]) -> AllowedTokens:
        """Returns the allowed tokens of a batch; see `bounds` for the arguments."""
        never = (UNKNOWN,) if self._exact else ()  # the text of an unknown token has no known length
        return AllowedTokens(self._vocabulary, *self.bounds(lengths, room), never=never)


class Session:
    """A batch of sentences being decoded: the model, its cache, and the rows that are not finished.

    A row is one unfinished sequence; at the start there is one for each sentence. The model reads each token
    once. The log-probabilities respect constraints and limits: a row that has reached its limit can only end.

    Args:
        model: The model, in evaluation mode.
        batch: The beginnings; the session reads them when it is created.
        constraint: The constraint of the outputs.
        sentence_ids: For each sentence its number in the whole input, which seeds random choices.

    Attributes:
        sentences: The sentence that each row belongs to, 0 for the first of the batch: (rows,).
        log_probabilities: Natural logarithms of the next token's probabilities, minus infinity where it is
            not allowed: (rows, vocabulary).

    Raises:
        NotFiniteError: The model's scores are not finite; `extend` raises it for later tokens.
    """

    def __init__(
        self, model: Generative, batch: Batch, constraint: Constraint, sentence_ids: list[int]
    ) -> None:
        self.model = model
        self.sentence_ids = sentence_ids
        self._allowed = constraint.start(model.input_lengths(batch), model.room(batch))
        self.sentences = torch.arange(len(sentence_ids), device=batch.device)
        self.log_probabilities = self._next(self._start(batch))

    def _start(self, batch: Batch) -> Int[Tensor, " rows"]:
        """Reads the beginnings but for their last tokens, which it returns."""
        self._past, last = self.model.begin(batch)
        return last

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a token appended to every row."""
        new = tokens[:, None]
        unpadded = Tokens(new, torch.ones_like(new, dtype=torch.bool), Padding.NONE)
        return self.model.step(unpadded, self._past)[:, -1]

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row and computes the next log-probabilities."""
        self._allowed.extend(tokens)
        self.log_probabilities = self._next(tokens)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order; a row may occur twice (beams) or never (finished)."""
        before = self.sentences
        self.sentences = before.index_select(0, rows)
        self._allowed.select(rows)
        self.log_probabilities = self.log_probabilities.index_select(0, rows)
        if len(rows) == len(before) and torch.equal(self.sentences, before):
            self._past.reorder(rows)
        else:
            self._past.select(rows)

    def _next(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        hidden = self._advance(tokens)[:, None]
        logits = self.model.head.logits(hidden, torch.ones_like(tokens, dtype=torch.bool)[:, None])[:, 0]
        log_probabilities = self._allowed.mask(logits.float().log_softmax(dim=-1))
        endless = self._allowed.endless(log_probabilities[:, END])
        if endless.any():
            raise not_finite(min(self.sentence_ids[row] for row in self.sentences[endless].tolist()))
        return log_probabilities


class Decoding(ABC):
    """A search for good outputs.

    A component is constructed as `SomeDecoding(**options)`. It extends a session until every sentence is
    finished, and drops finished rows with `select`.
    """

    @abstractmethod
    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first."""


def not_finite(key: int) -> NotFiniteError:
    """Returns the error for the example with this number in the whole input, counted from 0."""
    return NotFiniteError(
        f"the model gives numbers that are not finite for input {key + 1} (counted from 1)\n  its training "
        "has diverged, or a component is wrong; test components with `plugformer check`"
    )
