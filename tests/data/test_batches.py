"""How rows of different length become a batch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.batches import labeled, pairs

from plugformer.data.arrow import ragged
from plugformer.data.processor import refuse_incomplete
from plugformer.errors import ExampleError
from plugformer.interfaces import ABSENT, BEGIN, END, PADDING, Encoded, Ragged
from plugformer_plugins.task_type.regression import Regression
from plugformer_testing.small import SmallTask

ROWS = [[5, 6], [], [7, 8, 9]]


@pytest.mark.parametrize("rows", [[[4], [], [5, 6]], [[], []], []])
def test_sequences_come_one_by_one_as_they_went_in(rows: list[list[int]]) -> None:
    assert Ragged.of(rows).rows() == rows


def test_a_batch_knows_what_was_given_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when somebody asks, so that training pays nothing for it."""
    task_type = Regression(inputs=["one", "other"])
    task_type.state = {"mean": 0.0, "deviation": 1.0}
    examples = {"one": ["a", "b"], "other": ["c", "d"], "number": [1.0, 2.0]}
    split = SmallTask(task_type, examples).split()
    read = split.example
    monkeypatch.setattr(split, "example", pytest.fail)
    batch = split.batch([1, 0]).to("cpu")
    monkeypatch.setattr(split, "example", read)
    assert batch.asked(0) == {"one": "b", "other": "d"}
    assert batch.asked(1) == {"one": "a", "other": "c"}


def test_targets_go_from_begin_to_end_and_classified_texts_too() -> None:
    assert pairs([[5]], [[6]]).target.ids.tolist() == [[BEGIN, 6, END]]
    batch = labeled([[5], [6, 7]], [2, 0])
    assert batch.source.ids.tolist() == [[BEGIN, 5, END, PADDING], [BEGIN, 6, 7, END]]
    assert batch.targets.dtype == torch.int64
    assert batch.targets.tolist() == [2, 0]


def test_a_column_in_several_chunks_is_one() -> None:
    kind = pa.list_(pa.int32())
    column = pa.chunked_array([pa.array([[1], [2, 3]], kind), pa.array([], kind), pa.array([[], [4]], kind)])
    rows = ragged(column.slice(1))
    assert rows.longest.tolist() == [2, 0, 1]
    taken = rows.take(np.array([2, 0, 1, 0]))
    assert taken.values.tolist() == [4, 2, 3, 2, 3]
    assert taken.lengths.tolist() == [1, 2, 0, 2]


def test_rows_are_cut_at_a_limit() -> None:
    rows = ragged(pa.chunked_array([pa.array([[1, 2, 3], [4]], pa.list_(pa.int32()))]))
    cut = rows.take(np.array([0, 1]), 2)
    assert cut.values.tolist() == [1, 2, 4]
    assert cut.lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([[None, 3], [], [5]], [ABSENT, 3, 5]),
        ([[None, 0.5], [], [1]], [np.nan, 0.5, 1.0]),
        ([[], [], []], []),
    ],
)
def test_a_column_in_memory_is_one_of_a_file(rows: list[list[float | None]], values: list[float]) -> None:
    kind = pa.float64() if 0.5 in rows[0] else pa.int64()
    given = Ragged.of(rows)
    numbers, bounds = pa.array(given.values, kind), pa.array([0, *np.cumsum(given.lengths)], pa.int32())
    stored = ragged(pa.chunked_array([pa.ListArray.from_arrays(bounds, numbers)]))
    every = np.arange(3)
    for column in (stored, given):
        taken = column.take(every)
        assert column.longest.tolist() == [len(row) for row in rows]
        np.testing.assert_array_equal(taken.values, np.array(values, kind.to_pandas_dtype()))
        assert taken.values.dtype == kind.to_pandas_dtype()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.array([1.0, np.inf]), "its target is inf"),
        (np.array([1, None], dtype=object), "its target is None"),
        (np.array([[1.0, 0.0], [0.0, np.nan]]), r"its target is \[0.0, nan\]"),
    ],
)
def test_a_target_is_a_finite_number(targets: Any, message: str) -> None:
    with pytest.raises(ExampleError, match=message) as caught:
        refuse_incomplete(Encoded({"input": Ragged.of([[5, 6], [7, 8]])}, targets=targets))
    assert caught.value.row == 1


def test_an_input_with_rows_has_one() -> None:
    part = replace(Ragged.of([[5], [6]]), counts=np.array([2, 0]))
    with pytest.raises(ExampleError, match="it has no answers") as caught:
        refuse_incomplete(Encoded({"answers": part}))
    assert caught.value.row == 1
