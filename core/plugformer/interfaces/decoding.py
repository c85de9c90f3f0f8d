"""Decoding: the search for output sequences, its sessions, and the outputs that it may return."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.errors import NotFiniteError
from plugformer.interfaces.batch import Batch, Tokens
from plugformer.interfaces.model import Generative
from plugformer.interfaces.output_layer import PackedMatrices, Precision, largest
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, UNKNOWN, Tokenizer

_PORTION = 2**20  # scores that a processor's cache holds


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
        self, least: Int[Tensor, " rows"], most: Int[Tensor, " rows"], *, never: tuple[int, ...] = ()
    ) -> None:
        self.length = 0
        self.least, self.most = least, most
        # On the host: from the first of these lengths to the second, every row may end or be extended.
        self._free_from, self._free_to = torch.stack([least.max(), most.min()]).tolist()
        self._never = torch.tensor([PADDING, BEGIN, *never], device=least.device)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for forbidden tokens, and the other values unchanged; in place if it can.

        NaN stays NaN at END.
        """
        ending = log_probabilities[:, END].clone()
        masked = log_probabilities.index_fill_(1, self._never, -torch.inf)
        if not self._free_from <= self.length < self._free_to:
            masked += torch.where(self.length < self.most, 0.0, -torch.inf)[:, None]
            masked[:, END] = ending + torch.where(self.least <= self.length, 0.0, -torch.inf)
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
        self,
        tokenizer: Tokenizer,  # noqa: ARG002 (for subclasses)
        positions: int,
        *,
        max_length: int | str,
        length: int | str | None = None,
    ) -> None:
        setting = max_length if length is None else length
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
        return AllowedTokens(*self.bounds(lengths, room), never=never)


class Session:
    """A batch of sentences being decoded: the model, its cache, and the rows that are not finished.

    A row is one unfinished sequence; at the start there is one for each sentence. The model reads each token
    once. The log-probabilities respect constraints and limits: a row that has reached its limit can only end.
    The input of a sentence is kept once, as long as all sentences have as many rows, those of each together.

    Args:
        model: The model, in evaluation mode.
        batch: The beginnings; the session reads them when it is created.
        constraint: The constraint of the outputs.
        sentence_ids: For each sentence its number in the whole input, which seeds random choices.
        precision: Of the products with the large matrices of the head: see `PackedMatrices`.

    Attributes:
        sentences: The sentence that each row belongs to, 0 for the first of the batch: (rows,).
    """

    def __init__(
        self,
        model: Generative,
        batch: Batch,
        constraint: Constraint,
        sentence_ids: list[int],
        precision: Precision = "float32",
    ) -> None:
        self.model = model
        self.sentence_ids = sentence_ids
        self._packed = PackedMatrices(precision)
        self._allowed = constraint.start(model.input_lengths(batch), model.room(batch))
        self.sentences = self._inputs = torch.arange(len(sentence_ids), device=batch.device)
        self._past, self._hidden = model.begin(batch)

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a token appended to every row."""
        new = tokens[:, None]
        return self.model.step(Tokens(new, torch.ones_like(new, dtype=torch.bool), full=True), self._past)[
            :, -1
        ]

    @property
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities, minus infinity where it is not allowed.

        Raises:
            NotFiniteError: The model's scores are not finite.
        """
        return torch.cat(list(self.portions()))

    def top(self, k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
        """Returns log-probabilities and numbers of each row's `k` best next tokens, or all, best first."""
        best, tokens = zip(
            *(largest(scores, min(k, scores.shape[1])) for scores in self.portions()), strict=True
        )
        return torch.cat(best), torch.cat(tokens)

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row, which the model reads."""
        self._allowed.extend(tokens)
        self._hidden = self._advance(tokens)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order; a row may occur twice (beams) or never (finished)."""
        before, self.sentences = self.sentences, self.sentences.index_select(0, rows)
        self._allowed.select(rows)
        self._hidden = self._hidden.index_select(0, rows)
        examples = None
        if len(rows) != len(before) or not torch.equal(self.sentences, before):
            inputs, counts = self.sentences.unique_consecutive(return_counts=True)
            if (counts != counts[:1]).any() or (inputs.diff() <= 0).any():
                inputs = self.sentences  # an input for each row
            examples = (self._inputs == inputs[:, None]).int().argmax(dim=1)
            self._inputs = inputs
        self._past.select(rows, examples)

    def portions(self) -> Iterator[Float[Tensor, "some vocabulary"]]:
        """Yields `log_probabilities` of some rows after the others, in order."""
        head, rows = self.model.head, torch.arange(len(self._hidden), device=self._hidden.device)
        portion = max(1, _PORTION // self.model.sizes.outputs) if rows.device.type == "cpu" else len(rows)
        for some in rows.split(portion):
            hidden = self._hidden[some][:, None]
            with self._packed:
                logits = head.logits(hidden, torch.ones_like(some, dtype=torch.bool)[:, None])[:, 0]
            allowed = self._allowed
            if len(some) < len(rows):
                allowed = copy(allowed)
                allowed.select(some)
            scores = allowed.mask(logits.float().log_softmax(dim=-1))
            endless = allowed.endless(scores[:, END])
            if endless.any():
                raise not_finite(
                    min(self.sentence_ids[row] for row in self.sentences[some][endless].tolist())
                )
            yield scores


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
