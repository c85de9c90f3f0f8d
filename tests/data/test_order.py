"""Which rows make a batch of an evaluation."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plugformer.data.encoding import evaluation_order

LENGTHS = st.integers(0, 200).flatmap(lambda count: arrays(np.int64, (count, 2), elements=st.integers(1, 40)))


def positions(batch: list[int], lengths: np.ndarray) -> int:
    """The definition: rows times (longest source + longest target)."""
    return len(batch) * int(lengths[batch].max(axis=0).sum())


@given(LENGTHS, st.integers(1, 600))
@settings(deadline=None)
def test_evaluation_takes_the_wanted_rows_longest_first(lengths: np.ndarray, tokens: int) -> None:
    rows = list(range(0, len(lengths), 2))
    batches = evaluation_order(lengths, rows, tokens=tokens)
    assert sorted(row for batch in batches for row in batch) == rows
    assert all(len(batch) == 1 or positions(batch, lengths) <= tokens for batch in batches)
    sources = [lengths[row, 0] for batch in batches for row in batch]
    assert sources == sorted(sources, reverse=True)


def test_batches_are_as_full_as_the_budget_allows() -> None:
    lengths = np.full((100, 2), 5)
    sizes = [len(batch) for batch in evaluation_order(lengths, range(100), tokens=89)]
    assert sizes == [*[8] * 12, 4]
