"""The order of examples: which rows make a batch, and which batch comes when."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

Rows = list[int]


def token_batches(
    lengths: Int[ndarray, "examples sides"], *, tokens: int, seed: int, epoch: int
) -> list[Rows]:
    """Returns one epoch's batches under a token budget: a pure function of its arguments.

    Examples of similar length share a batch. Which examples, and the order of the batches, is drawn again in
    each epoch. A batch's rows times (longest source + longest target) stay within the budget, except that an
    example that exceeds it is a batch by itself.

    Args:
        lengths: Tokens of each example's source and target (or of its text), special tokens included.
        tokens: The budget: positions of a batch, padding included.
        seed: Of the run.
        epoch: Counted from 0.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(lengths))
    # lexsort is stable: rows of equal lengths stay shuffled.
    by_length = shuffled[np.lexsort(lengths[shuffled].T[::-1])]
    batches = _cut(by_length, lengths, tokens)
    return [batches[number] for number in generator.permutation(len(batches))]


def sized_batches(examples: int, *, size: int, seed: int, epoch: int) -> list[Rows]:
    """Returns one epoch's batches of `size` shuffled examples each; the last one has what remains."""
    shuffled = np.random.default_rng([seed, epoch]).permutation(examples).tolist()
    return [shuffled[start : start + size] for start in range(0, examples, size)]


def evaluation_order(
    lengths: Int[ndarray, "examples sides"], rows: Sequence[int], *, tokens: int
) -> list[Rows]:
    """Returns batches of some rows under a token budget, the longest first: what is too much fails at once.

    Args:
        lengths: As for `token_batches`, of all examples.
        rows: Those wanted; each comes exactly once.
        tokens: The budget.
    """
    chosen = np.asarray(rows, dtype=np.int64)
    by_length = chosen[np.lexsort(lengths[chosen].T[::-1])[::-1]]
    return _cut(by_length, lengths, tokens)


def _cut(rows: Int[ndarray, " rows"], lengths: Int[ndarray, "examples sides"], tokens: int) -> list[Rows]:
    """Cuts rows, in their order, into batches as large as the budget allows."""
    sides = lengths[rows]
    batches: list[Rows] = []
    start = 0
    while start < len(rows):
        # However short the others are, the first row's width bounds how many can join it.
        window = sides[start : start + max(tokens // max(sides[start].sum(), 1), 1)]
        widths = np.maximum.accumulate(window, axis=0).sum(axis=1)
        positions = widths * np.arange(1, len(window) + 1)
        stop = start + max(int(np.searchsorted(positions, tokens, side="right")), 1)
        batches.append(rows[start:stop].tolist())
        start = stop
    return batches
