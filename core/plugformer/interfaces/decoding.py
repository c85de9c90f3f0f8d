"""Decoding: the search for output sequences, its sessions, and the outputs that it may return."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.errors import NotFiniteError
from plugformer.interfaces.batch import Batch, Tokens
from plugformer.interfaces.head import HeadInput
from plugformer.interfaces.model import Generative
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, UNKNOWN, Tokenizer

if TYPE_CHECKING:
    from plugformer.interfaces.step_graph import StepGraph

_HEAP = 2**25 - 2**16  # bytes, slightly less than the largest block that the C library's heap may hold

GRAPHS = False
"""Whether a GPU replays steps as CUDA graphs; off, since `pytest tests/gpu` has not yet passed with them."""

LOOK = 8
"""Steps of decoding after which a search reads what a device has chosen."""


@dataclass(frozen=True)
class Hypothesis:
    """The token ids of an output without BEGIN and END, and its log-probability in nats, END included."""

    tokens: list[int]
    score: float


class AllowedTokens:
    """A logits processor: which tokens may follow each row of a batch; BEGIN and PADDING never may.

    A subclass that forbids more overrides `mask`, and `extend` and `select` if it keeps a state of each row.
    Outputs have `least` to `most` tokens, END not counted, and none that is in `never`.

    Attributes:
        length: Number of tokens of every row so far.
        longest: The maximum length of any row.
    """

    def __init__(
        self, least: Int[Tensor, " rows"], most: Int[Tensor, " rows"], *, never: tuple[int, ...] = ()
    ) -> None:
        self.length = 0
        self.least, self.most = least, most
        # On the host: from the first of these lengths to the second, every row may end or be extended.
        bounds = torch.stack([least.max(), most.min(), most.max()])
        self._free_from, self._free_to, self.longest = bounds.tolist()
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


Begin = Callable[[Int[Tensor, " rows"], Int[Tensor, " rows"]], AllowedTokens]
"""Begins a batch of outputs: of the fewest and the most tokens of each row's output."""


class Constraint(ABC):
    """Which texts an output may be.

    A component is constructed as `SomeConstraint(**options)`; `decoding.constraint` of a task names it.
    """

    @abstractmethod
    def compile(self, tokenizer: Tokenizer, shortest: int, longest: int) -> Begin:
        """Returns what begins the outputs of a batch. It is called once for a vocabulary.

        Where no text has the length that a row asks for, the row gets another one.

        Args:
            tokenizer: The trained tokenizer of outputs.
            shortest: Minimum length of any output that the task allows, in tokens, END not counted.
            longest: Its maximum length.

        Raises:
            ConfigurationError: The vocabulary can spell no such text with so many tokens.
        """


class AllowedOutputs:
    """The outputs that a task allows: their lengths and, with a constraint, which `begin` knows, their texts.

    Args:
        positions: The model's maximum length in tokens, BEGIN included.
        max_length: `decoding.max_length`: the longest output in tokens, a number or `source+N`.
        length: `decoding.length`: the only length of an output, a number or `source`; replaces `max_length`.
    """

    def __init__(self, positions: int, *, max_length: int | str, length: int | str | None = None) -> None:
        setting = max_length if length is None else length
        self._exact = length is not None
        self._on_source = isinstance(setting, str)
        self._tokens = int(setting.removeprefix("source") or 0) if isinstance(setting, str) else setting
        self._limit = positions - 1
        never = (UNKNOWN,) if self._exact else ()  # the text of an unknown token has no known length
        self.begin: Begin = partial(AllowedTokens, never=never)

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

    def shortened(self, most: int) -> "AllowedOutputs":
        """Returns the same outputs of at most so many tokens."""
        shorter = copy(self)
        shorter._limit = min(self._limit, most)
        return shorter

    def start(self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]) -> AllowedTokens:
        """Returns the allowed tokens of a batch; see `bounds` for the arguments."""
        return self.begin(*self.bounds(lengths, room))


class Session:
    """A batch of sentences being decoded: the model, its cache, and the rows that are not dropped.

    A row is one sequence, such as a beam; at the start there is one for each sentence. The model reads each
    token once. The log-probabilities respect what is allowed: a row that has reached its limit can only end.
    Rows of a sentence share its input while they are grouped by sentence, equally many for each.

    A row that has been extended by END is finished. It may stay: what follows has no meaning. So that the
    host does not wait for a device at every step, a search reads its numbers when `looks` is true, and drops
    rows when `few` of them are still wanted.

    Args:
        model: The model, in evaluation mode.
        batch: The beginnings; the session reads them when it is created.
        allowed: The outputs that the task allows.
        sentence_ids: For each sentence its number in the whole input, which seeds random choices.

    Attributes:
        sentences: The sentence that each row belongs to, 0 for the first of the batch: (rows,).
        finished: Whether each row is finished: (rows,).
        every: Steps from one look to the next: one on a CPU, where nothing waits.
    """

    every = 1

    def __init__(
        self,
        model: Generative,
        batch: Batch,
        allowed: AllowedOutputs,
        sentence_ids: list[int],
    ) -> None:
        self.model = model
        self.sentence_ids = sentence_ids
        if batch.device.type != "cpu":
            self.every = LOOK
        # glibc keeps freed memory in blocks below the largest that was ever freed; it returns what is above,
        # and then the system must clear the memory of each step (mallopt(3), M_MMAP_THRESHOLD).
        torch.empty(_HEAP, dtype=torch.uint8)
        self._allowed = allowed.start(model.input_lengths(batch), model.room(batch))
        self.sentences = torch.arange(len(sentence_ids), device=batch.device)
        self.finished = self._failed = torch.zeros_like(self.sentences, dtype=torch.bool)
        self._inputs: Sequence[int] = range(len(sentence_ids))
        self._past, self._hidden = model.begin(batch)
        self._context = model.head_input(batch, self._past, self._hidden)
        if not model.head.reads:
            self._context = HeadInput(self._context.real)
        self._graph = _step_graph(model, self._past) if GRAPHS and batch.device.type == "cuda" else None

    def _advance(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a token appended to every row."""
        # Rows that have ended do not grow. They are computed all the same, so there is no padding.
        new = Tokens(tokens[:, None], ~self.finished[:, None], full=True)
        return self.model.step(new, self._past)[:, -1] if self._graph is None else self._graph.step(new)

    @property
    def looks(self) -> bool:
        """Whether it is time to read tokens, before they extend the rows."""
        return (self._allowed.length + 1) % self.every == 0 or self._allowed.length >= self._allowed.longest

    def few(self, wanted: int) -> bool:
        """Returns whether so few rows are still wanted that the others are worth dropping."""
        rows = len(self.sentences)
        return wanted < rows if self.every == 1 else 2 * wanted <= rows

    @property
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities, minus infinity where it is not allowed.

        Raises:
            NotFiniteError: The model's scores are not finite; at the next look.
        """
        logits = self.model.head.logits(self._hidden[:, None], self._context)[:, 0]
        scores = self._allowed.mask(logits.float().log_softmax(dim=-1))
        self._failed = self._failed | (self._allowed.endless(scores[:, END]) & ~self.finished)
        if self.looks:
            self.check()
        return scores

    def top(self, k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
        """Returns log-probabilities and numbers of each row's `k` best next tokens, or all, best first.

        Of equal ones the first token is the best if `k` is 1.
        """
        scores = self.log_probabilities
        best, tokens = scores.max(dim=1, keepdim=True) if k == 1 else scores.topk(min(k, scores.shape[1]))
        return best, tokens

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row, which the model reads."""
        self._allowed.extend(tokens)
        self.finished = self.finished | (tokens == END)
        self._hidden = self._advance(tokens)
        if (weights := self.model.take_cross_attention()) is not None:
            self._context = replace(self._context, cross_attention=weights[:, :, -1:])

    def select(self, rows: Int[Tensor, " rows"], sentences: Sequence[int] | None = None) -> None:
        """Keeps these rows, in this order; a row may occur twice (beams) or never.

        Args:
            rows: Numbers of rows.
            sentences: Their sentences, if rows are grouped by sentence, equally many for each; otherwise, or
                if None, they are read from the device.
        """
        self.sentences = self.sentences.index_select(0, rows)
        self.finished, self._failed = (marks.index_select(0, rows) for marks in (self.finished, self._failed))
        self._allowed.select(rows)
        self._hidden = self._hidden.index_select(0, rows)
        self._context = self._context.select(rows)
        inputs = self._together() if sentences is None else sentences
        examples = None
        if [*inputs] != [*self._inputs]:
            places = {sentence: place for place, sentence in reversed([*enumerate(self._inputs)])}
            chosen = [places[sentence] for sentence in inputs]
            examples = torch.tensor(chosen, dtype=torch.long, device=rows.device)
            self._inputs = inputs
        self._past.select(rows, examples)

    def _together(self) -> list[int]:
        """Returns the sentences, if rows are grouped by them, equally many for each; or that of each row."""
        every: list[int] = self.sentences.tolist()
        found = [*dict.fromkeys(every)]
        rows = len(every) // max(len(found), 1)
        return found if every == [sentence for sentence in found for _ in range(rows)] else every

    def check(self) -> None:
        """Waits for the device.

        Raises:
            NotFiniteError: Scores of the model were not finite.
        """
        if self._failed.any():
            failed = self.sentences[self._failed].tolist()
            raise not_finite(min(self.sentence_ids[sentence] for sentence in failed))


class Decoding(ABC):
    """A search for good outputs.

    A component is constructed as `SomeDecoding(**options)`. It extends a session until every sentence is
    finished. It may drop finished rows with `select`, at every step or when the session `looks`.
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


def _step_graph(model: Generative, past: object) -> "StepGraph":
    from plugformer.interfaces.step_graph import StepGraph  # on a GPU alone

    return StepGraph(model, past)
