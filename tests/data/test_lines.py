"""Parallel files."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
from datasets import DatasetDict
from tests.columns import LABELS, PAIRS, asked_for

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer.registry import Registry

REGISTRY = Registry.discover()


def load(files: object, columns: Sequence[Column] = PAIRS) -> DatasetDict:
    return asked_for(REGISTRY.create("data", "lines", files=files).load(columns), columns)


def pair(folder: Path, name: str, source: str, target: str) -> dict[str, str]:
    (folder / f"{name}.de").write_text(source, encoding="utf-8")
    (folder / f"{name}.en.gz").write_bytes(gzip.compress(target.encode()))
    return {"source": str(folder / f"{name}.de"), "target": str(folder / f"{name}.en.gz")}


def test_lines_belong_together(tmp_path: Path) -> None:
    one, other = (
        pair(tmp_path, "one", "ein\nzwei\n", "one\ntwo"),
        pair(tmp_path, "other", "drei\n", "three\n"),
    )
    data = load({"train": [one, other], "test_2016": other})
    assert data["train"][:] == {"source": ["ein", "zwei", "drei"], "target": ["one", "two", "three"]}
    assert data["test_2016"]["source"][:] == ["drei"]


def test_spaces_are_removed_if_asked(tmp_path: Path) -> None:
    files = {"train": pair(tmp_path, "zh", "风 声 雨 声 \n", "读　书 声\n")}
    data = REGISTRY.create("data", "lines", files=files, spaces="remove").load(PAIRS)
    assert (data["train"]["source"][:], data["train"]["target"][:]) == (["风声雨声"], ["读书声"])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "1\n", r"bad\.en\.gz:2"),
        ("a\n", "1\n2\n", r"bad\.de:2"),
        ("a\n \nc\n", "1\n2\n3\n", r"bad\.de:2: the source is empty"),
        ("a\nb\n", "1\n\n", r"bad\.en\.gz:2: the target is empty"),
        ("", "1\n", r"bad\.de: is empty"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(
    tmp_path: Path, source: str, target: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load({"train": pair(tmp_path, "bad", source, target)})


def test_bad_lines_can_be_skipped_with_their_partners(tmp_path: Path) -> None:
    files = pair(tmp_path, "bad", "a\n \nc\nd\n", "1\n2\n\n4\n")
    (tmp_path / "bad.de").write_bytes((tmp_path / "bad.de").read_bytes().replace(b"d", b"\xe9"))
    data = REGISTRY.create("data", "lines", files={"train": files}, bad_rows="skip")
    train = data.load(PAIRS)["train"]
    assert (train["source"][:], train["target"][:]) == (["a"], ["1"])
    first, empty, missing, encoding = data.notices()[0].splitlines()
    assert first == "WARNING: train: bad rows skipped: 3 of 4 (75.0%): do the options of data fit? The first:"
    assert "bad.de:2: the source is empty" in empty
    assert "bad.en.gz:3: the target is empty" in missing
    assert "bad.de:4: the source is not UTF-8" in encoding


def test_a_pair_has_two_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="target"):
        load({"train": {"source": str(tmp_path / "a.de")}})


def test_files_that_are_not_there_are_found_before_reading(tmp_path: Path) -> None:
    files = {"train": [{**pair(tmp_path, "one", "a\n", "b\n"), "source": str(tmp_path / "gone.de")}]}
    data = REGISTRY.create("data", "lines", files=files)
    ((path, message),) = data.problems(PAIRS)
    assert path == ("files", "train", 0, "source")
    assert "gone.de: no such file" in message
    with pytest.raises(ConfigurationError, match="has source and target, and the task needs text and label"):
        data.check_columns(LABELS)
