"""Files of examples, damaged: rows, or an error that names file and line."""

import gzip
import io

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import strategies as st
from tests.columns import LABELS, PAIRS
from tests.fuzzing.mutation import BYTES, JSON_TOKENS, SCALARS, as_json, damaged, documents

from plugformer.data.files import read_lines
from plugformer.errors import DataError
from plugformer_plugins.data.lines import Lines
from plugformer_plugins.data.table import Table

CELLS = [
    b'"',
    b'""',
    b",",
    b"\t",
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xc2\x85",
    b"x" * 140_000,
    b"1",
    b"text",
    b"label",
]


def parquet(*columns: dict) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns[0]), sink)
    return sink.getvalue()


SEPARATED = [
    b'text,label\nfine,good\n"a, ""b""",bad\n',
    b"text\tlabel\nfine\tgood\nso so\tbad\n",
    "text,label\nschön,好\nно,1\n".encode(),
]
OBJECTS = [b'{"text": "fine", "label": 1}\n{"text": "bad", "label": 0}\n', b'{"text": "a", "label": "b"}\r\n']
PARQUET = [
    parquet({"text": ["fine", "bad"] * 5, "label": [1, 0] * 5}),
    parquet({"text": ["a", None], "label": ["x", "y"]}),
    parquet({"text": pa.array([b"\xff", b"a"]), "label": [[1], []]}),
]
NAMES = [".csv", ".tsv", ".jsonl", ".parquet", ".txt"]


@pytest.fixture
def read(tmp_path):
    """Reads a file as a table of texts and labels, under both policies about bad rows."""

    def run(content, suffix, packed):
        file = tmp_path / f"data{suffix}{'.gz' if packed else ''}"
        file.write_bytes(gzip.compress(content, 1) if packed else content)
        for policy in ("skip", "refuse"):
            data = Table(files={"train": file}, bad_rows=policy).load(LABELS)
            assert all(example["text"].strip() for example in data["train"])

    return run


CONTENTS = {
    ".csv": damaged(SEPARATED, CELLS),
    ".tsv": damaged(SEPARATED, CELLS),
    ".jsonl": damaged(OBJECTS, JSON_TOKENS)
    | st.lists(st.fixed_dictionaries({"text": SCALARS, "label": SCALARS}) | documents(["text", "label"])).map(
        lambda rows: b"\n".join(map(as_json, rows))
    ),
    ".parquet": damaged(PARQUET, BYTES),
}


@pytest.mark.parametrize("suffix", sorted(CONTENTS))
def test_damaged_tables(fuzz, read, suffix):
    fuzz(st.tuples(CONTENTS[suffix], st.booleans()), lambda case: read(case[0], suffix, case[1]))


def test_a_column_whose_name_is_no_text(tmp_path):
    """Found by the long run."""
    (tmp_path / "data.parquet").write_bytes(PARQUET[0].replace(b"text", b"t\x85xt"))
    with pytest.raises(DataError, match=r"data\.parquet: not a readable Parquet file: 'utf-8' codec"):
        Table(files={"train": tmp_path / "data.parquet"}).load(LABELS)


def test_any_bytes_as_a_table(fuzz, read):
    fuzz(st.tuples(st.binary(max_size=200), st.sampled_from(NAMES), st.booleans()), lambda case: read(*case))


def test_damaged_archives(fuzz, tmp_path):
    file = tmp_path / "data.csv.gz"

    def read(content):
        file.write_bytes(content)
        for strict in (True, False):
            list(read_lines(file, strict=strict))

    fuzz(damaged([gzip.compress(content) for content in SEPARATED], [gzip.compress(b"x")]), read)


def test_parallel_files(fuzz, tmp_path):
    files = tmp_path / "a.de", tmp_path / "a.en"
    originals = [b"eins\nzwei\ndrei\n", b"one\r\ntwo\r\nthree"]

    def read(contents):
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        pair = {"source": files[0], "target": files[1]}
        for policy in ("skip", "refuse"):
            Lines(files={"train": _pair(pair)}, bad_rows=policy).load(PAIRS)

    fuzz(st.tuples(damaged(originals, CELLS), damaged(originals, CELLS)), read)


def _pair(files):
    from plugformer_plugins.data.lines import Pair

    return Pair(**files)
