"""Which rows make a batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plugformer.data.encoding import evaluation_order, sized_batches, token_batches

LENGTHS = st.integers(0, 200).flatmap(lambda count: arrays(np.int64, (count, 2), elements=st.integers(1, 40)))


def positions(batch: list[int], lengths: np.ndarray) -> int:
    """The definition: rows times (longest source + longest target)."""
    return len(batch) * int(lengths[batch].max(axis=0).sum())


@given(LENGTHS, st.integers(1, 600), st.integers(0, 3), st.integers(0, 3))
@settings(deadline=None)
def test_every_row_comes_once_and_within_the_budget(
    lengths: np.ndarray, tokens: int, seed: int, epoch: int
) -> None:
    batches = token_batches(lengths, tokens=tokens, seed=seed, epoch=epoch)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or positions(batch, lengths) <= tokens for batch in batches)


@given(LENGTHS, st.integers(1, 600))
@settings(deadline=None)
def test_evaluation_takes_the_wanted_rows_longest_first(lengths: np.ndarray, tokens: int) -> None:
    rows = list(range(0, len(lengths), 2))
    batches = evaluation_order(lengths, rows, tokens=tokens)
    assert sorted(row for batch in batches for row in batch) == rows
    assert all(len(batch) == 1 or positions(batch, lengths) <= tokens for batch in batches)
    sources = [lengths[row, 0] for batch in batches for row in batch]
    assert sources == sorted(sources, reverse=True)


def test_a_row_over_the_budget_is_a_batch_of_its_own() -> None:
    lengths = np.array([[5, 5], [90, 90], [5, 5]])
    batches = token_batches(lengths, tokens=20, seed=1, epoch=0)
    assert sorted(map(sorted, batches)) == [[0, 2], [1]]


def test_batches_are_as_full_as_the_budget_allows() -> None:
    lengths = np.full((100, 2), 5)
    sizes = [len(batch) for batch in token_batches(lengths, tokens=89, seed=1, epoch=0)]
    assert sorted(sizes) == [4, *[8] * 12]


@pytest.mark.parametrize("seed_and_epoch", [(1, 1), (2, 0)])
def test_order_is_a_function_of_seed_and_epoch(seed_and_epoch: tuple[int, int]) -> None:
    lengths = np.random.default_rng(0).integers(2, 30, (500, 2))
    first = token_batches(lengths, tokens=256, seed=1, epoch=0)
    assert token_batches(lengths, tokens=256, seed=1, epoch=0) == first
    seed, epoch = seed_and_epoch
    assert token_batches(lengths, tokens=256, seed=seed, epoch=epoch) != first
    assert sized_batches(500, size=30, seed=1, epoch=0) == sized_batches(500, size=30, seed=1, epoch=0)
    assert sized_batches(500, size=30, seed=1, epoch=0) != sized_batches(500, size=30, seed=seed, epoch=epoch)


def test_bucketing_wastes_little() -> None:
    lengths = np.random.default_rng(0).integers(2, 30, (5000, 2))
    batches = token_batches(lengths, tokens=1024, seed=1, epoch=0)
    assert lengths.sum() / sum(positions(batch, lengths) for batch in batches) > 0.85


def test_sized_batches_have_the_size_but_the_last() -> None:
    batches = sized_batches(65, size=30, seed=1, epoch=0)
    assert [len(batch) for batch in batches] == [30, 30, 5]
    assert sorted(row for batch in batches for row in batch) == list(range(65))
    assert batches[0] != list(range(30))
