"""Which examples share a training batch, and the shapes of the batches."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plugformer.configuration import resolve
from plugformer.data import prepare
from plugformer.data.encoding import ONE, Counts, Lengths, evaluation_order
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.training.stream import epochs_of
from plugformer.validation import validate

LENGTHS = st.tuples(st.integers(1, 200), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(1, 90))
)


def shapes(batches: list[PlannedBatch]) -> Counter[tuple[int, ...]]:
    """How many batches have a number of rows and lengths."""
    return Counter((len(batch.rows), *batch.lengths) for batch in batches)


def computed(batches: list[PlannedBatch]) -> int:
    return sum(len(batch.rows) * sum(batch.lengths) for batch in batches)


def epochs(
    lengths: Lengths, counts: Counts = ONE, *, tokens: int = 1, size: int | None = None
) -> list[list[PlannedBatch]]:
    """Returns the batches of two epochs."""
    ladder = Ladder(lengths, counts, tokens=tokens, size=size)
    return [ladder.batches(lengths, counts, 1, epoch) for epoch in (0, 1)]


def translations(count: int) -> Lengths:
    """Sentence pairs: lengths are log-normal, those of targets follow the sources'."""
    generator = np.random.default_rng(0)
    source = generator.lognormal(2.6, 0.45, count)
    target = source * generator.lognormal(0.05, 0.17, count)
    lengths: Lengths = np.stack([source + 1, target + 2], axis=1).astype(np.int64).clip(max=128)
    return lengths


@given(LENGTHS, st.integers(1, 600), st.none() | st.integers(1, 40))
@settings(deadline=None)
def test_every_example_comes_once_into_a_shape_that_comes_again(
    lengths: Lengths, tokens: int, size: int | None
) -> None:
    first, second = epochs(lengths, tokens=tokens, size=size)
    for batches in (first, second):
        assert sorted(row for batch in batches for row in batch.rows) == list(range(len(lengths)))
        assert all((lengths[batch.rows] <= batch.lengths).all() for batch in batches)
        assert all((lengths.max(axis=0) >= batch.lengths).all() for batch in batches)
    assert shapes(first) == shapes(second)
    assert len(shapes(first)) <= 12


@given(LENGTHS, st.integers(1, 600), st.none() | st.integers(1, 40))
@settings(deadline=None)
def test_batches_are_full_but_one(lengths: Lengths, tokens: int, size: int | None) -> None:
    first, _ = epochs(lengths, tokens=tokens, size=size)
    full = [size or max(tokens // sum(batch.lengths), 1) for batch in first]
    rows = [len(batch.rows) for batch in first]
    assert all(found <= most for found, most in zip(rows, full, strict=True))
    assert sum(found < most for found, most in zip(rows, full, strict=True)) <= 1


@given(LENGTHS, st.integers(0, 3), st.integers(1, 600))
@settings(deadline=None)
def test_the_rows_of_examples_count(lengths: Lengths, seed: int, tokens: int) -> None:
    counts = np.random.default_rng(seed).integers(1, 5, lengths.shape)
    first, second = epochs(lengths, counts, tokens=tokens)
    for batch in first:
        positions = (counts[batch.rows].sum(axis=0) * batch.lengths).sum()
        assert len(batch.rows) == 1 or positions <= tokens
    assert shapes(first) == shapes(second)


def test_examples_of_the_next_rung_complete_a_batch() -> None:
    lengths = np.array([[50]] * 3 + [[10]] * 40)
    (first, second) = epochs(lengths, tokens=100)
    assert shapes(first) == {(2, 50): 2, (10, 10): 3, (9, 10): 1}
    (one,), (other,) = (
        [set(batch.rows) - {0, 1, 2} for batch in batches if batch.lengths == [50] and max(batch.rows) > 2]
        for batches in (first, second)
    )
    assert one != other


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0)])
def test_batches_are_a_function_of_seed_and_epoch(seed: int, epoch: int) -> None:
    lengths = translations(500)
    ladder = Ladder(lengths, tokens=256)
    first = ladder.batches(lengths, ONE, 1, 0)
    assert Ladder(lengths, tokens=256).batches(lengths, ONE, 1, 0) == first
    assert ladder.batches(lengths, ONE, seed, epoch) != first


def test_little_is_padding() -> None:
    lengths = translations(20_000)
    by_tokens, by_size = (epochs(lengths, tokens=4096, size=size)[0] for size in (None, 64))
    ordered = evaluation_order(lengths, range(len(lengths)), tokens=4096)
    least = sum(len(rows) * lengths[rows].max(axis=0).sum() for rows in ordered)
    assert computed(by_tokens) < 1.09 * least
    assert computed(by_size) < 1.09 * least


def test_lengths_suit_kernels() -> None:
    first, _ = epochs(np.random.default_rng(0).integers(1, 300, (5000, 1)), tokens=4096)
    found = {batch.lengths[0] for batch in first} - {299}
    assert any(length > 64 for length in found)
    assert not [length for length in found if length > 64 and length % 8]


def test_examples_longer_than_the_ladder_have_a_rung_of_their_own() -> None:
    ladder = Ladder(translations(1000), tokens=1024)
    lengths = np.array([[300, 7]] + [[12, 12]] * 200)
    found = shapes(ladder.batches(lengths, ONE, 1, 0))
    known = shapes(ladder.batches(translations(1000), ONE, 1, 0))
    (rows, source, target), *others = sorted(found, key=lambda shape: -shape[1])
    assert (rows, source) == (1024 // (source + target), 300)
    assert {shape[1:] for shape in others} <= {shape[1:] for shape in known}


@pytest.mark.parametrize("task", ["brackets", "copying", "dates", "names"])
@pytest.mark.parametrize("budget", [[], ["training.batch_tokens=700"], ["training.batch_size=24"]])
def test_batches_of_a_bundled_task_have_the_shapes_of_its_ladder(task: str, budget: list[str]) -> None:
    experiment = validate(resolve(task, [*budget, *["data.size=3000"] * (task == "dates")]))
    data, training, model = prepare(experiment), experiment.task.training, experiment.task.model
    epochs = epochs_of(training, data)
    assert epochs is not None
    assert shapes(epochs(0)) == shapes(epochs(1))
    assert len(shapes(epochs(0))) <= 12
    for planned in {tuple(batch.lengths): batch for batch in epochs(1)}.values():
        batch = data.splits["train"].batch(*planned, epoch=[1, 1])
        found = [tokens.ids.shape for tokens in batch.sequences]
        assert found == [(len(planned.rows), length) for length in planned.lengths]
        assert max(planned.lengths) <= model.max_length + 1  # the last one is predicted and not read
