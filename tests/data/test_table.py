"""Tables of pairs and of labeled texts."""

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import DatasetDict
from tests.columns import LABELS, PAIRS, asked_for, with_kinds

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer.registry import Registry
from plugformer_plugins.task_type.regression import Regression

REGISTRY = Registry.discover()
NUMBERS = with_kinds(Regression().columns)


def load(asked: Sequence[Column], files: dict[str, Any], **options: Any) -> DatasetDict:
    """Reads through the registry, as a task does: options are checked."""
    return asked_for(REGISTRY.create("data", "table", files=files, **options).load(asked), asked)


def written(folder: Path, name: str, content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    packed = name.endswith(".gz") and raw != b"not packed"
    (folder / name).write_bytes(gzip.compress(raw) if packed else raw)
    return str(folder / name)


def parquet(**columns: list[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({**columns, "target": ["1", "2"]}), sink)
    return sink.getvalue().to_pybytes()


CSV = 'source,target\n"a, ""quoted""\nbreak",1\nb,2\n'
TSV = 'source\ttarget\n"a, quoted\t1\nb\t2\n'
JSONL = "".join(
    json.dumps({"target": target, "source": source, "more": [1]}) + "\n" for source, target in ("a1", "b2")
)


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("pairs.csv", CSV, 'a, "quoted"\nbreak'),
        ("pairs.txt.gz", TSV, '"a, quoted'),
        ("pairs.jsonl", JSONL, "a"),
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
        (["1", "-1", "0.5", "10", "9"], None, ["-1", "0.5", "1", "9", "10"], [2, 0, 1, 4, 3]),
        (["b", "a", "C"], None, ["C", "a", "b"], [2, 1, 0]),
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


@pytest.mark.parametrize(("zero_based", "classes"), [(True, [1, 1]), (False, [0, 0])])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_task_may_say_how_classes_are_counted(
    tmp_path: Path, zero_based: bool, classes: list[int], streaming: bool
) -> None:
    file = written(tmp_path, "test.tsv", "text\t1\ntext\t1\n")
    options = {"files": {"train": file}, "header": False, "labels": ["x", "y", "z"]}
    data = REGISTRY.create("data", "table", **options, zero_based=zero_based)
    found = data.stream(LABELS) if streaming else data.load(LABELS)
    assert [row["label"] for row in found["train"]] == classes


@pytest.mark.parametrize("zero_based", [None, True])
def test_numbers_are_no_classes_where_a_class_is_named_by_one(
    tmp_path: Path, zero_based: bool | None
) -> None:
    file = written(tmp_path, "ratings.tsv", "text\t1\ntext\t0\n")
    with pytest.raises(DataError, match=r":2: unknown label '0'.*expected one of \['1', '2'\]; correct"):
        load(LABELS, {"train": file}, header=False, labels=["1", "2"], zero_based=zero_based)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.tsv", "a\t1\nb\n", r"rows\.tsv:2: number of columns: 1, expected 2"),
        ("rows.csv", 'a,1\n"b\nc",2\nd,3,4\n', r"rows\.csv:4: number of columns: 3, expected 2"),
        ("rows.csv", 'a,1\n"b,2\n', r"rows\.csv:2: unexpected end of data"),
        ("rows.tsv", "a\t1\nb\t\n", r"rows\.tsv:2: the target is empty"),
        ("rows.tsv", "a\n", r"rows\.tsv:1: there is no column 2; expected one of \['1'\]"),
        ("rows.tsv", b"a\t1\nb\xff\t2\n", r"rows\.tsv:2: byte 2 of the line \(0xff\) is not UTF-8"),
        ("rows.csv", "", r"rows\.csv: is empty"),
        ("rows.jsonl", '{"1": "a", "2": "b"}\n{"1": "a"}\n', r"rows\.jsonl:2: there is no column 2"),
        ("rows.jsonl", '{"1": "a", "2": 5.5}\n', r"rows\.jsonl:1: the target is 5.5, expected text"),
        (
            "rows.jsonl",
            '{"1": "a", "2": null}\n',
            r"rows\.jsonl:1: the target is missing, expected text; fill",
        ),
        (
            "rows.jsonl",
            '{"1": "a", "2": NaN}\n',
            r"rows\.jsonl:1: the target is missing, expected text; fill",
        ),
        (
            "rows.jsonl",
            '{"1": "a", "2": true}\n',
            r"rows\.jsonl:1: the target is True, .*; convert it to text",
        ),
        ("rows.jsonl", '{"1": "a",\n', r"rows\.jsonl:1: not JSON"),
        ("rows.jsonl", '{"1": "a", "2": "\\ud83d"}\n', r"jsonl:1: the target is not UTF-8"),
        ("rows.jsonl", "[1, 2]\n", r"rows\.jsonl:1: expected a JSON object, found '\[1, 2\]'"),
        ("rows.parquet", parquet(source=["a", " "]), r"rows\.parquet, row 2: the source is empty"),
        ("rows.parquet", parquet(source=[0.5, 2]), r"rows\.parquet, row 1: the source is 0.5, expected text"),
        ("rows.parquet", "no parquet", r"rows\.parquet: not a readable Parquet file"),
    ],
)
def test_bad_rows_are_named_with_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    file = written(tmp_path, name, content)
    with pytest.raises((ConfigurationError, DataError), match=message):
        load(PAIRS, {"train": file}, header=False, columns={"source": 1, "target": 2})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tSports\nb\tSport\n", r"rows\.tsv:2: unknown label 'Sport' \(did you mean 'Sports'\?\).*'World'"),
        ("a\t2\nb\t3\n", r"rows\.tsv:2: unknown label '3'.*'1', '2'"),
        ("a\t1\nb\t3\n", r"labels are numbers, .* neither 0 nor 2 occurs; .*zero_based"),
        ("a\t1\nb\t2\nc\t0\n", r"labels are numbers, .* both 0 and 2 occur; .*zero_based"),
    ],
)
def test_bad_labels_are_named_with_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    file = written(tmp_path, "rows.tsv", content)
    with pytest.raises(DataError, match=message):
        load(LABELS, {"train": file}, header=False, labels=["World", "Sports"])


def skipping(asked: Sequence[Column], files: dict[str, Any], **options: Any) -> tuple[DatasetDict, list[str]]:
    table = REGISTRY.create("data", "table", files=files, bad_rows="skip", **options)
    return asked_for(table.load(asked), asked), table.notices()


def test_bad_rows_can_be_skipped_and_the_first_are_named(tmp_path: Path) -> None:
    rows = [b"a\t1", b"b", b"caf\xe9\t3", b"\t4", b"e\t", b"f\t6"]
    file = written(tmp_path, "rows.tsv", b"\n".join(rows))
    data, notices = skipping(PAIRS, {"train": file, "test": file}, header=False)
    assert data["train"][:] == data["test"][:] == {"source": ["a", "f"], "target": ["1", "6"]}
    first, *faults = notices[0].splitlines()
    assert first == "WARNING: train: bad rows skipped: 4 of 6 (66.7%): do the options of data fit? The first:"
    for fault, words in zip(
        faults,
        ["2: number of columns: 1", "3: the source is not UTF-8", "4: the source is empty"],
        strict=True,
    ):
        assert f"{file}:{words}" in fault
    assert notices[1].startswith("WARNING: test: bad rows skipped: 4 of 6")


def test_a_stray_quote_spoils_its_own_line_alone(tmp_path: Path) -> None:
    rows = ["source,target", *(f"w{number},{number}" for number in range(9))]
    rows[3], rows[6], rows[9] = '"w2,2', 'say "hi",5', '"two\nlines",8'
    file = written(tmp_path, "rows.csv", "\n".join(rows))
    data, (notice,) = skipping(PAIRS, {"train": file})
    assert data["train"]["target"][:] == ["0", "1", "3", "4", "5", "6", "7", "8"]
    assert data["train"]["source"][-1] == "two\nlines"
    assert "1 of 9" in notice
    assert f"{file}:4: " in notice


def test_numbers_are_no_classes_where_names_are_those_of_training(tmp_path: Path) -> None:
    files = {"train": written(tmp_path, "train.tsv", "a\tham\nb\tspam\n")}
    files["test"] = written(tmp_path, "test.tsv", "c\t0\n")
    with pytest.raises(DataError, match=r"test\.tsv:1: unknown label '0'.*'ham', 'spam'"):
        load(LABELS, files, header=False)


def test_examples_with_numbers_say_where_they_stand(tmp_path: Path) -> None:
    files = {"train": [written(tmp_path, "rows.tsv", "a\t1\nb\t2\n"), written(tmp_path, "more.csv", "c,3\n")]}
    data = REGISTRY.create("data", "table", files=files, header=False)
    assert data.load(NUMBERS)["train"]["place"][:] == [
        *(f"{files['train'][0]}:{row}" for row in (1, 2)),
        f"{files['train'][1]}:1",
    ]
    assert data.load(PAIRS)["train"].column_names == ["source", "target"]


def test_rows_with_unknown_labels_can_be_skipped(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.tsv", "a\tx\nb\tz\nc\ty\n\tx\nd\tz\n")
    data, notices = skipping(LABELS, {"train": file}, header=False, labels=["x", "y"])
    assert data["train"][:] == {"text": ["a", "c"], "label": [0, 1]}
    assert notices[0].startswith("WARNING: train: bad rows skipped: 3 of 5")
    assert "unknown label 'z'" in notices[0]


def test_when_every_row_is_bad_the_first_is_shown(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.tsv", "a\t\nc\t\n")
    with pytest.raises(DataError, match=r"train: every row is bad; the first:\n.*:1: the target is empty"):
        skipping(PAIRS, {"train": file}, header=False)


@pytest.mark.parametrize(
    ("separator", "texts"),
    [(" ", ["T1 B1", "B2"]), (" [SEP] ", ["T1 [SEP] B1", " [SEP] B2"]), ("\t", ["T1\tB1", "B2"])],
)
def test_joined_columns_have_a_separator(tmp_path: Path, separator: str, texts: list[str]) -> None:
    file = written(tmp_path, "news.csv", "class,title,body\n1,T1,B1\n2,,B2\n")
    columns = {"text": ["title", "body"], "label": "class"}
    assert load(LABELS, {"train": file}, columns=columns, separator=separator)["train"]["text"][:] == texts
    empty = written(tmp_path, "empty.csv", "class,title,body\n1, ,\n")
    with pytest.raises(DataError, match=r"empty\.csv:2: the text is empty"):
        load(LABELS, {"train": empty}, columns=columns, separator=separator)


@pytest.mark.parametrize(
    ("name", "content", "bad"),
    [
        ("rows.tsv", f"{'x' * 200_000}\t1\nb\t2\n", 0),
        ("rows.csv", f"{'x' * 200_000},1\nb,2\n", 0),
        ("rows.csv", 'a,1\n"b"x,2\nc,3\n', 1),
        ("rows.csv", "a,1\nb\rx,2\nc,3\n", 1),
        ("rows.csv", 'a,1\nc,3\n"b,2\n', 1),
    ],
)
def test_one_row_does_not_end_the_reading(tmp_path: Path, name: str, content: str, bad: int) -> None:
    data, notices = skipping(PAIRS, {"train": written(tmp_path, name, content)}, header=False)
    assert len(data["train"]) == 2
    assert len(notices) == bad
    assert all("correct the line" in notice for notice in notices)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_arrays([pa.array(["a"]), pa.array(["1"]), pa.array(["2"])], ["source", "x", "x"]),
        tmp_path / "twice.parquet",
    )
    files = [written(tmp_path, "twice.tsv", "source\tx\tx\na\t1\t2\n"), str(tmp_path / "twice.parquet")]
    for file in files:
        with pytest.raises(ConfigurationError, match="several columns are called 'x'"):
            load(PAIRS, {"train": file}, columns={"source": "source", "target": "x"})
        data = load(PAIRS, {"train": file}, columns={"source": "source", "target": 3})
        assert data["train"]["target"][:] == ["2"]


def test_a_column_called_2_is_not_the_second_one(tmp_path: Path) -> None:
    file = written(tmp_path, "numbers.tsv", "2\tx\ty\na\tb\tc\n")
    columns: dict[Any, str] = {2: "b", "2": "a", 3: "c", "3": "c"}
    for target, expected in columns.items():
        data = load(PAIRS, {"train": file}, columns={"source": 1, "target": target})
        assert data["train"]["target"][:] == [expected]


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"files": {"train": "gone.tsv"}}, ("files", "train"), "gone.tsv: no such file; check the path"),
        ({"files": {"train": ["rows.tsv", "gone.tsv"]}}, ("files", "train", 1), "gone.tsv: no such file"),
        ({"files": {"train": "empty.tsv"}}, ("files", "train"), "empty.tsv: is empty"),
        ({"files": {"train": "rows.dat"}}, ("files", "train"), "cannot tell the format"),
        ({"columns": {"source": 1, "target": 2, "more": 3}}, ("columns",), "unknown key 'more'"),
        ({"columns": {"source": 1}}, ("columns",), "'target' is missing"),
        ({"columns": {"source": "sorce", "target": 2}}, ("columns",), "(did you mean 'source'?)"),
        ({"header": False, "columns": {"source": 1, "target": 3}}, ("columns",), "no column 3"),
        ({"files": {"train": "rows.parquet"}}, ("columns",), "rows.parquet: there is no column"),
        ({"files": {"train": "rows.jsonl"}}, ("files", "train"), "rows.jsonl:1: there is no column"),
        (
            {"files": {"train": "short.tsv"}},
            ("files", "train"),
            "short.tsv:2: number of columns: 1, expected 2",
        ),
    ],
)
def test_problems_are_found_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], path: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "rows.tsv", "source\ttarget\na\t1\n")
    written(tmp_path, "rows.dat", "source\ttarget\na\t1\n")
    written(tmp_path, "empty.tsv", "")
    written(tmp_path, "rows.jsonl", '{"source": "a"}\n')
    written(tmp_path, "short.tsv", "source\ttarget\na\n")
    pq.write_table(pa.table({"source": ["a"]}), "rows.parquet")
    table = REGISTRY.create("data", "table", **{"files": {"train": "rows.tsv"}, **options})
    ((found, words),) = table.problems(PAIRS)
    assert found == path
    assert message in words


def test_a_header_alone_is_a_split_without_rows(tmp_path: Path) -> None:
    assert len(load(LABELS, {"train": written(tmp_path, "rows.tsv", "text\tlabel\n")})["train"]) == 0


@pytest.mark.parametrize("cell", ["nan", "five"])
def test_what_is_no_number_is_refused(tmp_path: Path, cell: str) -> None:
    files = {"train": written(tmp_path, "rows.tsv", f"a\t{cell}\n")}
    with pytest.raises(DataError, match=r"rows\.tsv:1: the number is .*, expected a number"):
        load(NUMBERS, files, header=False)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_delimiter_is_named(tmp_path: Path, sign: str) -> None:
    file = written(tmp_path, "rows.csv", f"source{sign}target\na{sign}b\n")
    with pytest.raises(ConfigurationError, match=f"{re.escape(repr(sign))} seems to.* set data.delimiter"):
        load(PAIRS, {"train": file})
