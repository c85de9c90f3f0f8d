"""Reading lines of text."""

import gzip
from pathlib import Path

import pytest

from plugformer.errors import DataError
from plugformer_blocks import read_lines

CONTENT = "\ufefferste Zeile\r\n zweite\u2028noch immer \n\nletzte".encode()


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
def test_lines(tmp_path: Path, name: str) -> None:
    content = gzip.compress(CONTENT) if name.endswith(".gz") else CONTENT
    (tmp_path / name).write_bytes(content)
    assert list(read_lines(tmp_path / name)) == ["erste Zeile", " zweite\u2028noch immer ", "", "letzte"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", r"empty\.txt: is empty"),
        ("empty.gz", gzip.compress(b"", mtime=0), r"empty\.gz: is empty"),
        ("latin.txt", b"one\ntw\xf6\n", r"latin\.txt:2: byte 3 of the line \(0xf6\) is not UTF-8"),
        ("utf16.txt", "one".encode("utf-16"), r"utf16\.txt:1: byte 1"),
        ("plain.gz", b"not packed\n", r"plain\.gz:1: cannot read on: Not a gzipped file"),
        ("cut.gz", gzip.compress(b"line\n" * 9, mtime=0)[:-12], r"cut\.gz:\d+: cannot read on"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_lines(tmp_path / name))


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt: no such file"):
        list(read_lines(tmp_path / "gone.txt"))
    with pytest.raises(DataError, match="is a directory"):
        list(read_lines(tmp_path))
