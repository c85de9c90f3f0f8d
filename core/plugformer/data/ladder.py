"""Shapes of training batches: few, and the same ones in every epoch.

What is compiled, captured or allocated for a shape serves again when the shape comes again.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from plugformer.data.encoding import ONE, Counts, Lengths

RUNGS = 11
"""Maximum number of rungs. With the last batch, which is smaller, an epoch has one shape more."""

Sides = Int[ndarray, "examples sides"]
"""The lengths of each example's sequences, and then their numbers of rows."""
Rungs = Int[ndarray, "rungs sides"]


class PlannedBatch(NamedTuple):
    """The examples of a batch, and the lengths to which its sequences are padded."""

    rows: list[int]
    lengths: list[int]


class Ladder:
    """The lengths to which the sequences of training batches are padded, in a few rungs.

    In no sequence a rung is shorter than the one below, so that its batches can take examples of lower rungs.
    The rungs are those for which the fewest positions are computed: a function of the arguments.

    Args:
        lengths: Tokens of each example's sequences, special tokens included.
        counts: Rows of each sequence, or of all.
        tokens: Maximum number of positions of a batch: rows times length, added up over source, target and
            others. An example with more is a batch of its own.
        size: Examples of a batch, whatever their tokens; None for as many as the tokens allow.
    """

    def __init__(
        self, lengths: Lengths, counts: Counts = ONE, *, tokens: int, size: int | None = None
    ) -> None:
        self._tokens = tokens
        self._size = size
        sides = _sides(lengths, counts)
        path = _path(sides)
        fitting = np.bincount(_lowest(path, sides), minlength=len(path)).cumsum()
        ladders = [(path[chosen], np.diff(fitting[chosen], prepend=0)) for chosen in _cheapest(path, fitting)]
        self._rungs, _ = min(ladders, key=lambda ladder: self._positions(*ladder))

    def batches(self, lengths: Lengths, counts: Counts, seed: int, epoch: int) -> list[PlannedBatch]:
        """Returns the batches of one epoch: a pure function of the ladder and the arguments.

        Each epoch, counted from 0, draws again which examples share a batch, and the order of the batches.
        Their shapes are the same in every epoch. Examples longer than the ladder get a rung of their own.
        """
        sides = _sides(lengths, counts)
        longest = np.maximum(self._rungs[-1], sides.max(axis=0))
        rungs = np.unique(np.vstack([self._rungs, longest]), axis=0)
        numbers = _lowest(rungs, sides)
        generator = np.random.default_rng([seed, epoch])
        shuffled = generator.permutation(len(sides))
        # A stable sort: examples of a rung stay shuffled.
        ordered = shuffled[np.argsort(-numbers[shuffled], kind="stable")]
        batches = [
            PlannedBatch(ordered[start : start + starts.step].tolist(), rung[: lengths.shape[1]].tolist())
            for rung, starts in self._cuts(rungs, np.bincount(numbers, minlength=len(rungs)))
            for start in starts
        ]
        return [batches[number] for number in generator.permutation(len(batches))]

    def _cuts(self, rungs: Rungs, examples: Int[ndarray, " rungs"]) -> Iterator[tuple[ndarray, range]]:
        """Yields the rungs from the top, and at which of the ordered examples their batches begin.

        Examples of the next rung complete the last batch of each, so that only one batch is not full.
        """
        rows = (self._tokens // _prices(rungs)).clip(min=1)
        if self._size is not None:
            rows = np.full_like(rows, self._size)
        needed, start = examples[::-1].cumsum().tolist(), 0
        for rung, most, stop in zip(rungs[::-1], rows[::-1].tolist(), needed, strict=True):
            full = start + -(-(stop - start) // most) * most
            starts = range(start, min(full, needed[-1]), most)
            yield rung, starts
            start = starts.stop

    def _positions(self, rungs: Rungs, examples: Int[ndarray, " rungs"]) -> int:
        """Returns the positions of an epoch."""
        cuts = zip(_prices(rungs)[::-1].tolist(), self._cuts(rungs, examples), strict=True)
        return sum(price * (starts.stop - starts.start) for price, (_, starts) in cuts)


def _sides(lengths: Lengths, counts: Counts) -> Sides:
    return np.hstack([lengths, np.broadcast_to(counts, lengths.shape)])


def _prices(rungs: Rungs) -> Int[ndarray, " rungs"]:
    """Returns the maximum number of positions of an example: lengths times numbers of rows, added up."""
    lengths, counts = np.split(rungs, 2, axis=1)
    prices: ndarray = (lengths * counts).sum(axis=1).clip(min=1)
    return prices


def _lowest(rungs: Rungs, sides: Sides) -> Int[ndarray, " examples"]:
    """Returns the number of the lowest rung that each example fits."""
    numbers: ndarray = np.max([np.searchsorted(*pair) for pair in zip(rungs.T, sides.T, strict=True)], axis=0)
    return numbers


def _path(sides: Sides) -> Rungs:
    """Returns the possible rungs: the quantiles of all sides for the same share of the examples, rounded up.

    Lengths from 64 on are multiples of 8, which suits kernels, those from 32 on of 4, and so on: four binary
    digits, unless that is more than the longest has.
    """
    steps = 1 << (np.frexp(sides)[1] - 4).clip(min=0)
    rounded = np.minimum(-(-sides // steps) * steps, sides.max(axis=0))
    ascending = np.sort(rounded, axis=0)
    path: ndarray = ascending[np.diff(ascending, axis=0, prepend=-1).any(axis=1)]
    return path


def _cheapest(path: Rungs, fitting: Int[ndarray, " rungs"]) -> Iterator[Int[ndarray, " chosen"]]:
    """Yields the places of the rungs with the fewest positions, for one rung, two and so on.

    `fitting` has the number of examples that fit each place of the path. They come from dynamic programming
    over the highest rung but one. All batches count as full.
    """
    places, below = np.arange(len(path)), np.concatenate([[0], fitting[:-1]])
    # The positions of a rung by the place above the rung below it, and its own place.
    positions = np.where(places[:, None] <= places, (fitting - below[:, None]) * _prices(path), np.inf)
    least, chosen = positions[0], places[:, None]
    yield chosen[-1]
    for _ in range(min(RUNGS, len(path)) - 1):
        sums = least[:-1, None] + positions[1:]
        least, chosen = sums.min(axis=0), np.hstack([chosen[sums.argmin(axis=0)], places[:, None]])
        yield chosen[-1]
