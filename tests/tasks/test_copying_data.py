"""Sequences to be copied."""

from typing import Any

import pytest
from datasets import DatasetDict
from tests.columns import PAIRS

from plugformer.errors import ConfigurationError
from plugformer.registry import Registry


def load(**options: Any) -> DatasetDict:
    create = Registry.discover().create
    data: DatasetDict = create("data", "copying", **options).load(PAIRS)
    return data


def test_numbers_and_lengths() -> None:
    data = load(size=500, held_out=100, numbers=6, min_numbers=3, symbols=12)
    assert {name: len(part) for name, part in data.items()} == {"train": 500, "validation": 100, "test": 100}
    assert data["train"]["source"][:] == data["train"]["target"][:]
    rows = [text.split(" ") for text in data["train"]["source"]]
    assert {len(row) for row in rows} == {3, 4, 5, 6}
    assert {number for row in rows for number in row} == {str(number) for number in range(1, 13)}


def test_held_out_sequences_are_fresh() -> None:
    data = load(size=2000, held_out=50, numbers=3, symbols=6)
    train, validation, test = (set(data[name]["source"]) for name in ("train", "validation", "test"))
    assert not train & (validation | test)
    assert not validation & test
    assert len(validation) == len(test) == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_numbers": 11}, "min_numbers: 11 exceeds numbers: 10"),
        ({"numbers": 2, "held_out": 26}, "held_out: 26 is too many.*at most 25"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(**options)
