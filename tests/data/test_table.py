"""Tables of pairs and of labelled texts."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import DatasetDict

from plugformer.errors import ConfigurationError, DataError, PlugformerError
from plugformer.interfaces import TaskType
from plugformer.registry import Registry

PAIRS, LABELS = TaskType.SEQUENCE_TO_SEQUENCE, TaskType.CLASSIFICATION
REGISTRY = Registry.discover()


def load(task_type: TaskType, files: dict[str, Any], **options: Any) -> DatasetDict:
    """Reads through the registry, as a task does: options are checked."""
    data: DatasetDict = REGISTRY.create("data", "table", files=files, **options).load(task_type)
    return data


def written(folder: Path, name: str, content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return str(folder / name)


CSV = 'source,target\n"a, ""quoted""\nbreak",1\nb,2\n'
TSV = 'source\ttarget\n"a, quoted\t1\nb\t2\n'
JSONL = "".join(
    json.dumps({"target": target, "source": source, "more": [1]}) + "\n" for source, target in ("a1", "b2")
)


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("pairs.csv", CSV, 'a, "quoted"\nbreak'),
        ("pairs.csv.gz", CSV, 'a, "quoted"\nbreak'),
        ("pairs.tsv", TSV, '"a, quoted'),
        ("pairs.txt.gz", TSV, '"a, quoted'),
        ("pairs.jsonl", JSONL, "a"),
        ("pairs.jsonl.gz", JSONL, "a"),
    ],
)
def test_formats(tmp_path: Path, name: str, content: str, first: str) -> None:
    train = load(PAIRS, {"train": written(tmp_path, name, content)})["train"]
    assert train[:] == {"source": [first, "b"], "target": ["1", "2"]}


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.parquet.gz"])
def test_parquet(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"source": ["a", "b"], "target": ["1", "2"]}), tmp_path / "plain")
    file = written(tmp_path, name, (tmp_path / "plain").read_bytes())
    assert load(PAIRS, {"train": file})["train"][:] == {"source": ["a", "b"], "target": ["1", "2"]}
    by_number = load(PAIRS, {"train": file}, columns={"source": 2, "target": 1})
    assert by_number["train"]["source"][:] == ["1", "2"]


def test_files_follow_one_another_and_test_sets_have_names(tmp_path: Path) -> None:
    one, other = written(tmp_path, "one.tsv", "a\t1\n"), written(tmp_path, "other.tsv", "b\t2\n")
    data = load(PAIRS, {"train": [one, other], "test_2016": other, "test": one}, header=False)
    assert data["train"]["source"][:] == ["a", "b"]
    assert data["test_2016"]["target"][:] == ["2"]


def test_columns_by_name_and_number_joined(tmp_path: Path) -> None:
    file = written(tmp_path, "news.csv", "class,title,body\n1,T1,B1\n2,,B2\n")
    columns = {"text": ["title", 3], "label": "class"}
    data = load(LABELS, {"train": file}, columns=columns, labels=["World", "Sports"])
    assert data["train"][:] == {"text": ["T1 B1", "B2"], "label": [0, 1]}
    assert data["train"].features["label"].names == ["World", "Sports"]


@pytest.mark.parametrize(
    ("cells", "labels", "names", "classes"),
    [
        (["b", "a", "b"], None, ["a", "b"], [1, 0, 1]),
        (["10", "9", "10"], None, ["9", "10"], [1, 0, 1]),
        (["b", "a", "b"], ["b", "a"], ["b", "a"], [0, 1, 0]),
        (["1", "2", "2"], ["x", "y"], ["x", "y"], [0, 1, 1]),
        (["0", "1", "1"], ["x", "y"], ["x", "y"], [0, 1, 1]),
        (["y", "1", "2"], ["x", "y"], ["x", "y"], [1, 0, 1]),
        (["2", "1", "1"], ["2", "1"], ["2", "1"], [0, 1, 1]),
    ],
)
def test_labels(
    tmp_path: Path, cells: list[str], labels: list[str] | None, names: list[str], classes: list[int]
) -> None:
    file = written(tmp_path, "rows.tsv", "".join(f"text\t{cell}\n" for cell in cells))
    train = load(LABELS, {"train": file}, header=False, labels=labels)["train"]
    assert train.features["label"].names == names
    assert train["label"][:] == classes


def test_one_zero_anywhere_decides_how_classes_are_counted(tmp_path: Path) -> None:
    train = written(tmp_path, "train.tsv", "text\t0\ntext\t1\n")
    test = written(tmp_path, "test.tsv", "text\t1\n")
    data = load(LABELS, {"train": train, "test": test}, header=False, labels=["x", "y"])
    assert data["test"]["label"][:] == [1]


def test_numbers_in_json_are_labels(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n')
    assert load(LABELS, {"train": file}, labels=["x", "y"])["train"]["label"][:] == [0, 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.tsv", "a\t1\nb\n", r"rows\.tsv:2: 1 columns, expected 2"),
        ("rows.tsv", "a\t1\n\nb\t2\n", r"rows\.tsv:2: 0 columns, expected 2"),
        ("rows.csv", 'a,1\n"b\nc",2\nd,3,4\n', r"rows\.csv:4: 3 columns, expected 2"),
        ("rows.csv", 'a,1\n"b,2\n', r"rows\.csv:2: unexpected end of data"),
        ("rows.tsv", "a\t1\n \t2\n", r"rows\.tsv:2: the source is empty"),
        ("rows.tsv", "a\t1\nb\t\n", r"rows\.tsv:2: the target is empty"),
        ("rows.tsv", "a\n", r"rows\.tsv:1: there is no column 2, only \['1'\]"),
        ("rows.tsv", b"a\t1\nb\xff\t2\n", r"rows\.tsv:2: byte 2 of the line \(0xff\) is not UTF-8"),
        ("rows.csv", "", r"rows\.csv: is empty"),
        ("rows.jsonl", '{"1": "a", "2": "b"}\n{"1": "a"}\n', r"rows\.jsonl:2: there is no column 2"),
        ("rows.jsonl", '{"1": "a", "2": 5}\n', r"rows\.jsonl:1: the target is 5, expected text"),
        ("rows.jsonl", '{"1": "a", "2": null}\n', r"rows\.jsonl:1: the target is None"),
        ("rows.jsonl", '{"1": "a",\n', r"rows\.jsonl:1: not JSON"),
        ("rows.jsonl", '{"1": "a", "2": "\\ud83d"}\n', r"jsonl:1: the target is not UTF-8: .* has a lone"),
        ("rows.jsonl", "[1, 2]\n", r"rows\.jsonl:1: expected a JSON object, found '\[1, 2\]'"),
        ("rows.parquet", "no parquet", r"rows\.parquet: not a readable Parquet file"),
        ("rows.parquet", "", r"rows\.parquet: is empty"),
    ],
)
def test_bad_rows_are_named_with_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    file = written(tmp_path, name, content)
    with pytest.raises(DataError, match=message):
        load(PAIRS, {"train": file}, header=False, columns={"source": 1, "target": 2})


def test_broken_gz_of_every_format_is_named(tmp_path: Path) -> None:
    for suffix in ("csv", "jsonl", "parquet"):
        file = tmp_path / f"rows.{suffix}.gz"
        file.write_bytes(b"not packed")
        with pytest.raises(DataError, match=rf"rows\.{suffix}\.gz.*Not a gzipped file"):
            load(PAIRS, {"train": str(file)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tSports\nb\tSport\n", r"rows\.tsv:2: unknown label 'Sport' \(did you mean 'Sports'\?\).*'World'"),
        ("a\t1\nb\t3\n", r"rows\.tsv:2: unknown label '3'.*number from 1 to 2"),
        ("a\t0\nb\t2\n", r"rows\.tsv:2: unknown label '2'.*number from 0 to 1"),
        ("a\t1\nb\t\n", r"rows\.tsv:2: the label is empty"),
    ],
)
def test_bad_labels_are_named_with_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    file = written(tmp_path, "rows.tsv", content)
    with pytest.raises(DataError, match=message):
        load(LABELS, {"train": file}, header=False, labels=["World", "Sports"])


def test_a_label_that_training_lacks_is_named(tmp_path: Path) -> None:
    train, test = written(tmp_path, "train.tsv", "a\tx\n"), written(tmp_path, "test.tsv", "a\tx\nb\ty\n")
    with pytest.raises(DataError, match=r"test\.tsv:2: unknown label 'y'"):
        load(LABELS, {"train": train, "test": test}, header=False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": {"source": 1, "traget": 2}}, ConfigurationError, "'traget' .did you mean 'target'"),
        ({"columns": {"source": 1}}, ConfigurationError, "'target' is missing"),
        ({"columns": {"source": "sorce", "target": "target"}}, DataError, "did you mean 'source'"),
        ({"delimiter": "||"}, ConfigurationError, r"'\|\|' is not one character"),
        ({"labels": ["a", "a"]}, ConfigurationError, "repeats a name"),
    ],
)
def test_bad_options(
    tmp_path: Path, options: dict[str, Any], error: type[PlugformerError], message: str
) -> None:
    file = written(tmp_path, "pairs.tsv", "source\ttarget\na\t1\n")
    with pytest.raises(error, match=message):
        load(PAIRS, {"train": file}, **options)


def test_an_unknown_format_needs_a_delimiter(tmp_path: Path) -> None:
    file = written(tmp_path, "pairs.dat", "a;1\n")
    with pytest.raises(ConfigurationError, match=r"format of .*pairs\.dat from '\.dat'"):
        load(PAIRS, {"train": file}, header=False)
    data = load(PAIRS, {"train": file}, header=False, delimiter=";")
    assert data["train"][:] == {"source": ["a"], "target": ["1"]}


def test_a_split_has_a_proper_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="trian"):
        load(PAIRS, {"trian": written(tmp_path, "pairs.tsv", "a\t1\n")})
