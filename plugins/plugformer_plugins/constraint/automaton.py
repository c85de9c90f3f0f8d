"""Automata over tokens, and the tokens that they allow while a batch is decoded."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import END, AllowedTokens


@dataclass(frozen=True)
class TokenAutomaton:
    """The sequences of tokens that an output may be.

    Tokens that lead to the same state from every state are one class, so that the tables stay small.

    Attributes:
        classes: The class of each token; that of PADDING, BEGIN and END leads into the dead state.
        moves: The next state, by state and class. State 0 is the first; the last is dead: nothing leads out.
        accepting: Whether an output may end in a state.
        shorter: By state and n, how many of the lengths 0 to n - 1 lead from it to an end.
    """

    classes: Int[Tensor, " vocabulary"]
    moves: Int[Tensor, "states classes"]
    accepting: Bool[Tensor, " states"]
    shorter: Int[Tensor, "states lengths"]

    @classmethod
    def of(
        cls,
        moves: Int[ndarray, "states classes"],
        classes: Int[ndarray, " vocabulary"],
        accepting: Bool[ndarray, " states"],
        longest: int,
    ) -> "TokenAutomaton":
        """Returns an automaton for outputs of at most `longest` tokens, with its table of lengths."""
        steps = np.zeros((len(moves), len(moves)), dtype=np.float32)
        steps[np.arange(len(moves))[:, None], moves] = 1.0
        completions = np.empty((len(moves), longest + 1), dtype=bool)
        completions[:, 0] = accepting
        for length in range(1, longest + 1):
            completions[:, length] = steps @ completions[:, length - 1].astype(np.float32) > 0
        shorter = np.zeros((len(moves), longest + 2), dtype=np.int32)
        shorter[:, 1:] = completions.cumsum(axis=1)
        return cls(*map(torch.from_numpy, (classes, moves, accepting, shorter)))

    @cached_property
    def lengths(self) -> Int[Tensor, " possible"]:
        """The numbers of tokens that an output can have."""
        return self.shorter[0].diff().nonzero().squeeze(1)

    def to(self, device: torch.device) -> "TokenAutomaton":
        """Returns the same tables on a device."""
        if self.classes.device == device:
            return self
        return TokenAutomaton(*(getattr(self, field.name).to(device) for field in fields(self)))


class AutomatonTokens(AllowedTokens):
    """Which tokens may follow each row of a batch, by its state in an automaton and by the length.

    Args:
        automaton: The sequences of tokens that an output may be.
        least: Fewest tokens of each row's output, END not counted.
        most: Most tokens of each row's output. If the automaton has no length between the two, a row has the
            nearest length that it has.
    """

    def __init__(
        self, automaton: TokenAutomaton, least: Int[Tensor, " rows"], most: Int[Tensor, " rows"]
    ) -> None:
        lengths = automaton.lengths
        distance = (least[:, None] - lengths).clamp(min=0) + (lengths - most[:, None]).clamp(min=0)
        gap, nearest = distance.min(dim=1)
        least, most = (torch.where(gap > 0, lengths[nearest], bound) for bound in (least, most))
        super().__init__(least, most)
        self._automaton = automaton
        self._states = torch.zeros_like(least)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for tokens that may not follow, and the others' values unchanged."""
        shorter, following = self._automaton.shorter, self._automaton.moves[self._states]
        below, up_to = (
            (bound - self.length).clamp(min=0, max=shorter.shape[1] - 1)[:, None]
            for bound in (self.least - 1, self.most)
        )
        # (rows, classes): whether an output of the right length can still be reached
        allowed = shorter[following, up_to] > shorter[following, below]
        # A class at a time: what is computed for each row and token is one addition.
        penalties = torch.where(allowed, 0.0, -torch.inf)
        masked = log_probabilities + penalties.index_select(1, self._automaton.classes)
        may_end = self._automaton.accepting[self._states] & (self.least <= self.length)
        masked[:, END] = log_probabilities[:, END] + torch.where(may_end, 0.0, -torch.inf)
        return masked

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row; one that has ended may stay, and can end again."""
        super().extend(tokens)
        following = self._automaton.moves[self._states, self._automaton.classes[tokens]]
        self._states = self._states.where(tokens == END, following)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order."""
        super().select(rows)
        self._states = self._states.index_select(0, rows)
