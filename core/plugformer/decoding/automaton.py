"""Which tokens may follow which, and how many more it takes: the automaton behind every constraint."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import BEGIN, END, PADDING


@dataclass(frozen=True)
class TokenAutomaton:
    """The sequences of tokens that an output may be.

    Tokens that lead the same way from every state are one class, so that the tables stay small.

    Attributes:
        classes: The class of each token.
        moves: The next state, by state and class. State 0 is the first; the last is dead: nothing leads out.
        accepting: Whether a state may be the end.
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
        return cls.of(np.array([[0, 1], [1, 1]]), classes, np.array([True, False]), longest)

    @cached_property
    def lengths(self) -> Int[Tensor, " possible"]:
        """The numbers of tokens that an output can have."""
        return self.shorter[0].diff().nonzero().squeeze(1)

    def to(self, device: torch.device) -> "TokenAutomaton":
        """Returns the same tables on a device."""
        return replace(self, **{each.name: getattr(self, each.name).to(device) for each in fields(self)})
