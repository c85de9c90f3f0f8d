"""What every output must respect, whatever the search: its length, and a pattern of its text."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.configuration.task import DecodingBlock
from plugformer.decoding.automaton import TokenAutomaton
from plugformer.decoding.limit import LengthRange
from plugformer.decoding.pattern import compile_pattern
from plugformer.decoding.spelling import spell
from plugformer.errors import ConfigurationError
from plugformer.interfaces import END, UNKNOWN, Tokenizer


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
    def of(cls, settings: DecodingBlock, tokenizer: Tokenizer, model_max_length: int) -> "Constraint":
        """Reads a task's `decoding` block. It takes a moment: do it once for a model, not for each batch.

        Args:
            settings: The block.
            tokenizer: Of the output, trained.
            model_max_length: Most positions that the model can process.

        Raises:
            ConfigurationError: No output can respect the settings: the vocabulary cannot spell the pattern,
                or its texts are all too long or not of the length that is asked for.
        """
        lengths = LengthRange.parse(settings.length, settings.max_length, model_max_length)
        if settings.pattern is None:
            never = () if settings.length is None else (UNKNOWN,)  # nobody knows how long its text is
            return cls(TokenAutomaton.free(tokenizer.size, lengths.longest, never=never), lengths)
        try:
            automaton = spell(compile_pattern(settings.pattern), tokenizer, lengths.longest)
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
        self._least, self._most = _possible(automaton.lengths, least, most)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for tokens that may not follow, and the others' values as they are."""
        # A class at a time: what is computed for each row and token is one addition.
        penalties = torch.where(self._allowed, 0.0, -torch.inf)
        masked = log_probabilities + penalties.index_select(1, self._automaton.classes)
        masked[:, END] = log_probabilities[:, END].masked_fill(~self._may_end, -torch.inf)
        return masked

    @property
    def at_limit(self) -> Bool[Tensor, " rows"]:
        """Whether each row has as many tokens as it may have."""
        return self._most <= 0

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row."""
        self._states = self._automaton.moves[self._states, self._automaton.classes[tokens]]
        self._least = self._least - 1
        self._most = self._most - 1

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
            bound.clamp(min=0, max=shorter.shape[1] - 1)[:, None] for bound in (self._least - 1, self._most)
        )
        return shorter[following, up_to] > shorter[following, below]

    @property
    def _may_end(self) -> Bool[Tensor, " rows"]:
        return self._automaton.accepting[self._states] & (self._least <= 0)


def _possible(
    lengths: Int[Tensor, " possible"], least: Int[Tensor, " rows"], most: Int[Tensor, " rows"]
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Returns the ranges, those that hold none of the possible lengths replaced by the nearest of these."""
    distance = (least[:, None] - lengths).clamp(min=0) + (lengths - most[:, None]).clamp(min=0)
    gap, nearest = distance.min(dim=1)
    return torch.where(gap > 0, lengths[nearest], least), torch.where(gap > 0, lengths[nearest], most)
