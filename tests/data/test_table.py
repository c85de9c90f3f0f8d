"""Tables of pairs and of labelled texts."""

import gzip
import json
import random
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


def test_files_of_different_formats_follow_one_another(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": ["c"], "target": ["3"]}), tmp_path / "plain")
    files = [
        written(tmp_path, "one.csv.gz", "source,target\na,1\n"),
        written(tmp_path, "two.jsonl.gz", '{"target": "2", "source": "b"}\n'),
        written(tmp_path, "three.parquet.gz", (tmp_path / "plain").read_bytes()),
        written(tmp_path, "four.tsv", "more\ttarget\tsource\n-\t4\td\n"),
    ]
    train = load(PAIRS, {"train": files})["train"]
    assert train[:] == {"source": ["a", "b", "c", "d"], "target": ["1", "2", "3", "4"]}


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
        ("rows.tsv", "a\t1\nb\n", r"rows\.tsv:2: 1 column, expected 2"),
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


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_a_gz_that_breaks_off_is_named_with_its_last_line(tmp_path: Path, suffix: str) -> None:
    """Of random digits, half of the packed file is about half of the lines."""
    draw = random.Random(1)  # noqa: S311 (examples, not secrets)
    digits = [draw.randrange(10**15) for _ in range(1000)]
    row = {"csv": "{0},{0}\n", "tsv": "{0}\t{0}\n", "jsonl": '{{"1": "{0}", "2": "{0}"}}\n'}[suffix]
    packed = gzip.compress("".join(row.format(number) for number in digits).encode())
    file = tmp_path / f"rows.{suffix}.gz"
    file.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(
        DataError, match=r"rows\.\w+\.gz:\d{3}: cannot read on: .*ended before.*fetch it again"
    ):
        load(PAIRS, {"train": str(file)}, header=False, columns={"source": 1, "target": 2})


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_broken_parquet_gz_is_named(tmp_path: Path, damage: str) -> None:
    pq.write_table(pa.table({"source": ["a"] * 1000, "target": ["b"] * 1000}), tmp_path / "plain")
    packed = bytearray(gzip.compress((tmp_path / "plain").read_bytes()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[20:60] = b"\xff" * 40
    file = tmp_path / "rows.parquet.gz"
    file.write_bytes(packed)
    with pytest.raises(DataError, match=r"rows\.parquet\.gz: not a readable Parquet file"):
        load(PAIRS, {"train": str(file)})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a", " ", "c"], r"rows\.parquet, row 2: the source is empty"),
        (["a", "b", None], r"rows\.parquet, row 3: the source is None"),
        ([1, 2, 3], r"rows\.parquet, row 1: the source is 1, expected text"),
        (
            pa.array([b"a", b"b", b"c\xe9"]).view(pa.string()),
            r"rows\.parquet, row 3: a text is not UTF-8: .*0xe9",
        ),
    ],
)
def test_bad_rows_of_parquet_are_named_with_their_number(tmp_path: Path, source: Any, message: str) -> None:
    pq.write_table(pa.table({"source": source, "target": ["1", "2", "3"]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=message):
        load(PAIRS, {"train": str(tmp_path / "rows.parquet")})


def test_one_line_in_another_encoding(tmp_path: Path) -> None:
    content = "café\t1\n".encode() + "café\t2\n".encode("latin-1")
    with pytest.raises(DataError, match=r"rows\.tsv:2: byte 4 of the line \(0xe9\) is not UTF-8; .*iconv"):
        load(PAIRS, {"train": written(tmp_path, "rows.tsv", content)}, header=False)


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


def skipping(task_type: TaskType, files: dict[str, Any], **options: Any) -> tuple[DatasetDict, list[str]]:
    table = REGISTRY.create("data", "table", files=files, bad_rows="skip", **options)
    return table.load(task_type), table.notices()


def test_bad_rows_can_be_skipped_and_the_first_are_named(tmp_path: Path) -> None:
    rows = [b"a\t1", b"b", b"caf\xe9\t3", b"\t4", b"e\t", b"f\t6"]
    file = written(tmp_path, "rows.tsv", b"\n".join(rows))
    data, notices = skipping(PAIRS, {"train": file, "test": file}, header=False)
    assert data["train"][:] == data["test"][:] == {"source": ["a", "f"], "target": ["1", "6"]}
    first, *faults = notices[0].splitlines()
    assert first == "train: bad rows skipped: 4; the first:"
    for fault, words in zip(
        faults, ["2: 1 column", "3: the source is not UTF-8", "4: the source is empty"], strict=True
    ):
        assert f"{file}:{words}" in fault
    assert notices[1].startswith("test: bad rows skipped: 4")


def test_bad_rows_of_other_formats_can_be_skipped(tmp_path: Path) -> None:
    lines = ['{"source": "a", "target": "1"}', "{", "[]", '{"source": 2, "target": "2"}', '{"source": "c"}']
    names = pa.array([b"a", b"\xe9"]).view(pa.string())
    pq.write_table(pa.table({"source": names, "target": ["1", "2"]}), tmp_path / "rows.parquet")
    files = {
        "train": written(tmp_path, "rows.jsonl", "\n".join(lines)),
        "test": str(tmp_path / "rows.parquet"),
    }
    data, notices = skipping(PAIRS, files)
    assert data["train"][:] == data["test"][:] == {"source": ["a"], "target": ["1"]}
    assert [notice.split(";")[0] for notice in notices] == [
        "train: bad rows skipped: 4",
        "test: bad rows skipped: 1",
    ]


def test_rows_with_unknown_labels_can_be_skipped(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.tsv", "a\tx\nb\tz\nc\ty\n\tx\nd\tz\n")
    data, notices = skipping(LABELS, {"train": file}, header=False, labels=["x", "y"])
    assert data["train"][:] == {"text": ["a", "c"], "label": [0, 1]}
    assert notices[0].startswith("train: bad rows skipped: 3")
    assert "unknown label 'z'" in notices[0]


def test_when_every_row_is_bad_the_first_is_shown(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.tsv", "a\tb\nc\td\n")
    with pytest.raises(
        DataError, match=r"train: not one row is sound; the first:\n.*:1: there is no column 3"
    ):
        skipping(PAIRS, {"train": file}, header=False, columns={"source": 1, "target": 3})


def test_a_file_that_breaks_off_is_never_skipped(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv.gz"
    file.write_bytes(gzip.compress(b"a\t1\n" * 1000)[:-20])
    with pytest.raises(DataError, match="cannot read on"):
        skipping(PAIRS, {"train": str(file)}, header=False)
