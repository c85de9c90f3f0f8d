"""From a task to examples ready for a model."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plugformer.configuration.task import Task
from plugformer.data.preparation import PreparedData, prepare
from plugformer.errors import DataError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import BEGIN, END
from plugformer.registry import Registry
from plugformer_plugins.data.table import TabularData

REGISTRY = Registry.discover()
ROWS = [(f"{a}+{b}", str(a + b)) for a in range(1, 10) for b in range(1, 10)]


def pairs(folder: Path, *, extra: str = "", **settings: Any) -> Task:
    """A task on generated sums; `extra` lines follow them."""
    text = "".join(f"{source}\t{target}\n" for source, target in ROWS)
    (folder / "sums.tsv").write_text(text + extra, encoding="utf-8")
    data = {"name": "table", "files": {"train": str(folder / "sums.tsv")}, "header": False}
    data |= {"split": {"validation": 0.1, "test": 0.1, "by": "order"}, **settings.pop("data", {})}
    return Task.model_validate(
        {
            "type": "sequence-to-sequence",
            "data": data,
            "tokenizer": "characters",
            "model": {"architecture": "encoder-decoder", "head": "language_model", "max_length": 20},
            **settings,
        }
    )


def classes(folder: Path, **data: Any) -> Task:
    rows = [f"{2 - number % 2},{number},{('even', 'odd')[number % 2]} {number}\n" for number in range(40)]
    (folder / "numbers.csv").write_text("".join(rows))
    files = {"train": str(folder / "numbers.csv")}
    block = {"name": "table", "files": files, "header": False, "columns": {"text": [2, 3], "label": 1}}
    return Task.model_validate(
        {
            "type": "classification",
            "data": {**block, "labels": ["odd", "even"], "split": {"validation": 0.25}, **data},
            "tokenizer": "whitespace",
            "model": {"architecture": "encoder-only", "head": "classifier"},
        }
    )


def prepared(task: Task) -> PreparedData:
    return prepare(Experiment.of(task, REGISTRY))


def test_texts_can_be_read_back_from_batches(tmp_path: Path) -> None:
    data = prepared(pairs(tmp_path))
    train = data.splits["train"]
    rows = [3, 0, 17]
    batch = train.batch(rows)
    assert batch.rows == rows
    assert data.processor.source.decode(batch.source.ids.tolist()) == [train.input(row) for row in rows]
    assert data.processor.target.decode(batch.target.ids.tolist()) == [
        train.references(row)[0] for row in rows
    ]
    assert (train.input(0), train.references(0)) == ("1+1", ["2"])
    assert batch.target.ids[:, 0].tolist() == [BEGIN] * 3


def test_a_seed_draws_a_training_set_with_replacement(tmp_path: Path) -> None:
    def drawn(**training: Any) -> PreparedData:
        return prepared(pairs(tmp_path, training=training))

    def examples(data: PreparedData, split: str = "train") -> list[str]:
        return [data.splits[split].input(row) for row in range(len(data.splits[split]))]

    plain, one, again = drawn(), drawn(resample=True, seed=1), drawn(resample=True, seed=1)
    replicate, two = drawn(resample=True, seed=1, replicate=3), drawn(resample=True, seed=2)
    assert examples(one) == examples(again) == examples(replicate) != examples(two)
    assert len(examples(one)) == len(examples(plain))
    distinct = len(set(examples(one))) / len(set(examples(plain)))
    assert distinct == pytest.approx(1 - math.exp(-1), abs=0.1)  # of an example's chance to be drawn
    assert set(examples(one)) < set(examples(plain))
    assert examples(one, "validation") == examples(plain, "validation")
    assert one.hashes == plain.hashes


def test_tokenizers_learn_from_the_training_split_alone(tmp_path: Path) -> None:
    task = pairs(tmp_path, extra="".join(f"{i}-1\t雨\n" for i in range(9)))
    data = prepared(task)
    assert "雨" not in data.processor.source.tokens(range(data.processor.source.size))
    assert data.splits["test"].references(len(data.splits["test"]) - 1) == ["雨"]


@pytest.mark.parametrize(("shared", "plus"), [(True, True), (False, False)])
def test_one_vocabulary_or_two(tmp_path: Path, shared: bool, plus: bool) -> None:
    task = pairs(tmp_path, tokenizer={"name": "characters", "shared": shared})
    data = prepared(task)
    assert (data.processor.source is data.processor.target) is shared
    assert ("+" in data.processor.target.tokens(range(data.processor.target.size))) is plus


def test_labels_become_classes(tmp_path: Path) -> None:
    data = prepared(classes(tmp_path))
    train = data.splits["train"]
    assert data.processor.task_type.state == ["odd", "even"]
    rows = list(reversed(range(len(train))))
    batch = train.batch(rows)
    assert [data.processor.task_type.state[label] for label in batch.targets.tolist()] == [
        train.input(row).split()[1] for row in rows
    ]
    assert [train.references(row) for row in (0, 1)] == [[train.input(row).split()[1]] for row in (0, 1)]
    assert batch.source.ids[:, 0].tolist() == [BEGIN] * len(train)
    assert batch.target.ids.numel() == 0
    assert data.processor.source is data.processor.target


LONG = "123456789+1\t123456790\n" * 2


def test_dropped_examples_are_counted(tmp_path: Path) -> None:
    length = {"max": 8, "over": "drop"}
    data = prepared(pairs(tmp_path, extra=LONG + "5+6\t11\n7+8\t15\n", data={"length": length}))
    test = data.splits["test"]
    assert str(data.lengths["test"]) == "8 examples, longest side 11 tokens, 2 dropped"
    assert len(test) == len(test.lengths) == 6
    texts = [test.input(row) for row in range(6)]
    assert texts[-2:] == ["5+6", "7+8"]
    assert all("123456789" not in text for text in texts)
    assert data.processor.source.decode(test.batch(range(6)).source.ids.tolist()) == texts
    assert test.references(5) == ["15"]
    assert data.lengths["train"].dropped == 0


def test_truncated_examples_are_counted_and_keep_their_text(tmp_path: Path) -> None:
    length = {"max": 8, "over": "truncate"}
    data = prepared(pairs(tmp_path, extra=LONG, data={"length": length}))
    test, last = data.splits["test"], 7
    assert str(data.lengths["test"]) == "8 examples, longest side 11 tokens, 2 truncated"
    assert data.processor.source.decode(test.batch([last]).source.ids.tolist()) == ["12345678"]
    assert test.batch([last]).source.ids[0, -1] == END
    assert test.lengths[last].tolist() == [9, 10]
    assert test.references(last) == ["123456790"]


def test_training_examples_can_be_limited_alone(tmp_path: Path) -> None:
    text = "".join(f"{number} plays\n" for number in range(40))
    (tmp_path / "plays.txt").write_text(text, encoding="utf-8")
    data = {"name": "text", "files": {"train": str(tmp_path / "plays.txt")}, "ends": {"validation": 0.5}}
    task = Task.model_validate(
        {
            "type": "language-modelling",
            "data": {**data, "length": {"training": 4}},
            "tokenizer": "characters",
            "model": {"architecture": "decoder-only", "head": "language_model", "max_length": 16},
        }
    )
    found = prepared(task)
    assert set(found.splits["train"].lengths[:-1, 0]) == {5}  # with the token before each piece
    assert set(found.splits["validation"].lengths[:-1, 0]) == {17}
    cutting = pairs(tmp_path, extra=LONG, data={"length": {"training": 2, "over": "truncate"}})
    lengths = prepared(cutting).lengths
    assert lengths["train"].truncated > 0 == lengths["test"].truncated


def test_of_a_truncated_output_the_characters_that_are_left_count(tmp_path: Path) -> None:
    length = {"max": 2, "over": "truncate"}
    data = prepared(pairs(tmp_path, extra="1+1\t2é\n1+1\té23456\n", data={"length": length}))
    test = data.splits["test"]
    targets = np.array([len(test.batch([row]).target.ids[0]) - 1 for row in range(len(test))])
    assert test.references(len(test) - 1) == ["é23456"]
    assert test.units("characters", targets)[-2:].tolist() == (targets - 1)[-2:].tolist() == [2, 2]
    assert test.units("bytes", targets)[-2:] == pytest.approx([3, 7 / 3])


def test_refused_examples_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"test, example 7 \('[0-9+]{11}'\): its input has 11 tokens, the limit is 8 \(2 "
    ):
        prepared(pairs(tmp_path, extra=LONG, data={"length": {"max": 8}}))


def test_no_example_left_is_an_error(tmp_path: Path) -> None:
    length = {"max": 1, "over": "drop"}
    with pytest.raises(DataError, match=r"train: all of its .* examples are longer"):
        prepared(pairs(tmp_path, data={"length": length}))


def test_data_without_a_column_of_the_task_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = TabularData.load
    monkeypatch.setattr(
        TabularData, "load", lambda self, columns: load(self, columns).remove_columns("target")
    )
    with pytest.raises(RegistryError, match=r"data 'table' gave split 'train' without the column 'target'"):
        prepared(pairs(tmp_path))


def test_fixed_padding(tmp_path: Path) -> None:
    train = prepared(pairs(tmp_path, data={"padding": 12})).splits["train"]
    assert train.batch([0, 1]).source.ids.shape == (2, 12)
    assert train.batch([0, 1]).target.ids.shape == (2, 12)
    assert train.lengths.tolist() == [[12, 12]] * len(train)
