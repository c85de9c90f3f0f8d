"""What every output must respect, whatever the search: its length, and the pattern of a plugin."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer.configuration.task import DecodingBlock
from plugformer.errors import ConfigurationError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Tokenizer


@dataclass(frozen=True)
class TokenAutomaton:
    """The sequences of tokens that an output may be.

    Tokens that lead the same way from every state are one class, so that the tables stay small.

    Attributes:
        classes: The class of each token.
        moves: The next state, by state and class. State 0 is the first; the last is dead: nothing leads out.
        accepting: Whether a state may be the end.
        shorter: By state and n, how many of the lengths 0 to n - 1 lead from it to an end.
        penalties: What is added to the log-probability of each token wherever the length is free; None if it
            depends on the state.
    """

    classes: Int[Tensor, " vocabulary"]
    moves: Int[Tensor, "states classes"]
    accepting: Bool[Tensor, " states"]
    shorter: Int[Tensor, "states lengths"]
    penalties: Float[Tensor, " vocabulary"] | None = None

    @classmethod
    def of(
        cls,
        moves: Int[ndarray, "states classes"],
        classes: Int[ndarray, " vocabulary"],
        accepting: Bool[ndarray, " states"],
        longest: int,
    ) -> "TokenAutomaton":
        """Returns an automaton with its table of lengths.

        Args:
            moves: The next state, by state and class.
            classes: The class of each token; PADDING, BEGIN and END lead into the last state, the dead one.
            accepting: Whether a state may be the end.
            longest: Most tokens that an output may have.
        """
        steps = np.zeros((len(moves), len(moves)), dtype=np.float32)
        steps[np.arange(len(moves))[:, None], moves] = 1.0
        completions = np.empty((len(moves), longest + 1), dtype=bool)
        completions[:, 0] = accepting
        for length in range(1, longest + 1):
            completions[:, length] = steps @ completions[:, length - 1].astype(np.float32) > 0
        shorter = np.concatenate([np.zeros((len(moves), 1), dtype=int), completions.cumsum(axis=1)], axis=1)
        return cls(
            torch.from_numpy(classes),
            torch.from_numpy(moves),
            torch.from_numpy(accepting),
            torch.from_numpy(shorter.astype(np.int32)),
        )

    @classmethod
    def free(cls, vocabulary: int, longest: int, *, never: tuple[int, ...] = ()) -> "TokenAutomaton":
        """Returns the automaton of all sequences.

        Args:
            vocabulary: Number of tokens.
            longest: Most tokens that an output may have.
            never: Tokens that no output has.
        """
        classes = np.zeros(vocabulary, dtype=np.int64)
        classes[[PADDING, BEGIN, END, *never]] = 1
        shorter = torch.stack([torch.arange(longest + 2), torch.zeros(longest + 2)]).int()
        moves, accepting = torch.tensor([[0, 1], [1, 1]]), torch.tensor([True, False])
        penalties = torch.zeros(vocabulary)
        penalties[[PADDING, BEGIN, *never]] = -torch.inf
        return cls(torch.from_numpy(classes), moves, accepting, shorter, penalties)

    @cached_property
    def lengths(self) -> Int[Tensor, " possible"]:
        """The numbers of tokens that an output can have."""
        return self.shorter[0].diff().nonzero().squeeze(1)

    def to(self, device: torch.device) -> "TokenAutomaton":
        """Returns the same tables on a device."""
        if self.classes.device == device:
            return self
        tables = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(
            self, **{name: table.to(device) for name, table in tables.items() if table is not None}
        )


class OutputPattern(ABC):
    """The texts that a task's `decoding.pattern` allows; plugins offer it by the hook `output_pattern`."""

    @abstractmethod
    def automaton(self, tokenizer: Tokenizer, longest: int) -> TokenAutomaton:
        """Returns the sequences of tokens whose text is one of them.

        Args:
            tokenizer: Of the output, trained.
            longest: Most tokens that an output may have.

        Raises:
            ConfigurationError: There is none of at most `longest` tokens.
        """


@dataclass(frozen=True)
class LengthRange:
    """The lengths in tokens that an output may have.

    Attributes:
        tokens: The longest: a number, possibly on top of the source's length.
        on_source: Whether the source's length is added.
        exact: Whether no output may be shorter.
        limit: What the model can process; never exceeded (BEGIN takes one position).
    """

    tokens: int
    on_source: bool
    exact: bool
    limit: int

    @classmethod
    def parse(cls, length: int | str | None, max_length: int | str, model_max_length: int) -> "LengthRange":
        """Reads `decoding.length`, which leaves no choice, or else `decoding.max_length`.

        Either is a number, `source`, or `source+N`.
        """
        setting = max_length if length is None else length
        tokens = int(setting.removeprefix("source") or 0) if isinstance(setting, str) else setting
        return cls(tokens, isinstance(setting, str), length is not None, model_max_length - 1)

    @property
    def longest(self) -> int:
        """The longest output of any source."""
        return self.limit if self.on_source else min(self.tokens, self.limit)

    def of(
        self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Returns the shortest and the longest for each example.

        Args:
            lengths: Of the inputs, without special tokens.
            room: The most that the model can process beside each.
        """
        most = (lengths * self.on_source + self.tokens).clamp(max=self.limit).minimum(room)
        return most if self.exact else torch.zeros_like(most), most


@dataclass(frozen=True)
class Constraint:
    """The outputs that a task allows.

    Attributes:
        automaton: The sequences of tokens.
        lengths: How many tokens.
    """

    automaton: TokenAutomaton
    lengths: LengthRange

    @classmethod
    def of(
        cls,
        settings: DecodingBlock,
        tokenizer: Tokenizer,
        model_max_length: int,
        pattern: OutputPattern | None = None,
    ) -> "Constraint":
        """Reads a task's `decoding` block. It takes a moment: do it once for a model, not for each batch.

        Args:
            settings: The block.
            tokenizer: Of the output, trained.
            model_max_length: Most positions that the model can process.
            pattern: What the block's `pattern` stands for, if it has one.

        Raises:
            ConfigurationError: No output can respect the settings: the vocabulary cannot spell the pattern,
                or its texts are all too long or not of the length that is asked for.
        """
        lengths = LengthRange.parse(settings.length, settings.max_length, model_max_length)
        if pattern is None:
            never = () if settings.length is None else (UNKNOWN,)  # nobody knows how long its text is
            return cls(TokenAutomaton.free(tokenizer.size, lengths.longest, never=never), lengths)
        try:
            automaton = pattern.automaton(tokenizer, lengths.longest)
        except ConfigurationError as error:
            raise ConfigurationError(f"decoding.pattern: {error}") from error
        _require_length(settings, automaton)
        return cls(automaton, lengths)

    def start(self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]) -> "Progress":
        """Returns the beginnings of a batch's outputs."""
        return Progress(self.automaton.to(lengths.device), *self.lengths.of(lengths, room))


def _require_length(settings: DecodingBlock, automaton: TokenAutomaton) -> None:
    if isinstance(settings.length, int) and settings.length not in automaton.lengths.tolist():
        known = automaton.lengths.tolist()
        raise ConfigurationError(
            f"decoding.length: no text of the pattern {settings.pattern!r} has {settings.length} tokens; its "
            f"texts have {', '.join(map(str, known[:5]))}{' ...' if len(known) > 5 else ''}"
        )


class Progress:
    """How far each row of a batch has come, and which tokens may follow.

    Args:
        automaton: The sequences of tokens that an output may be.
        least: Fewest tokens of each row's output, END not counted.
        most: Most tokens of each row's output. Where the automaton has nothing between the two, what it has
            nearest to them is taken.
    """

    def __init__(
        self, automaton: TokenAutomaton, least: Int[Tensor, " rows"], most: Int[Tensor, " rows"]
    ) -> None:
        self._automaton = automaton
        self._states = torch.zeros_like(least)
        lengths = automaton.lengths
        distance = (least[:, None] - lengths).clamp(min=0) + (lengths - most[:, None]).clamp(min=0)
        gap, nearest = distance.min(dim=1)
        self._least, self._most = (torch.where(gap > 0, lengths[nearest], bound) for bound in (least, most))
        # Kept on the host: from the first of these lengths to the second, every row may end or be extended.
        self._free_from, self._free_to = torch.stack([self._least.max(), self._most.min()]).tolist()
        self._length = 0

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for tokens that may not follow, and the others' values as they are.

        What is not a number stays so: no search may take it for a token that is not allowed.
        """
        if self._automaton.penalties is not None and self._free_from <= self._length < self._free_to:
            return log_probabilities + self._automaton.penalties
        # A class at a time: what is computed for each row and token is one addition.
        penalties = torch.where(self._allowed, 0.0, -torch.inf)
        masked = log_probabilities + penalties.index_select(1, self._automaton.classes)
        may_end = self._automaton.accepting[self._states] & (self._least <= self._length)
        masked[:, END] = log_probabilities[:, END] + torch.where(may_end, 0.0, -torch.inf)
        return masked

    def endless(self, ending: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Returns whether no search could end a row: its scores are no numbers, or END is not possible.

        A score that is infinite or no number makes all log-probabilities of its row NaN, that of END too. A
        row with as many tokens as it may have can only end.

        Args:
            ending: The log-probability of END.
        """
        if self._length < self._free_to:
            return ending.isnan()
        return ending.isnan() | ((self._most <= self._length) & ending.isneginf())

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row."""
        self._length += 1
        if self._automaton.penalties is None:
            self._states = self._automaton.moves[self._states, self._automaton.classes[tokens]]

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only, in this order."""
        self._states = self._states.index_select(0, rows)
        self._least = self._least.index_select(0, rows)
        self._most = self._most.index_select(0, rows)

    @property
    def _allowed(self) -> Bool[Tensor, "rows classes"]:
        """Whether a token of each class leaves an output of the right length within reach."""
        shorter, following = self._automaton.shorter, self._automaton.moves[self._states]
        below, up_to = (
            (bound - self._length).clamp(min=0, max=shorter.shape[1] - 1)[:, None]
            for bound in (self._least - 1, self._most)
        )
        return shorter[following, up_to] > shorter[following, below]
