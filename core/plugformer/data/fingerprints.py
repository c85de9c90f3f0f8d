"""Fingerprints of examples: by content, so that the same data have the same one everywhere."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from plugformer.data.text_file import check_file

if TYPE_CHECKING:
    from datasets import Dataset


SAMPLES, SAMPLE = 32, 2**18
"""Samples of a file that is too large to be read for its version, and the bytes of each."""


def fingerprint(*parts: str) -> str:
    """Returns a short hash of texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def files_version(files: Iterable[Path]) -> str:
    """Returns a hash of the contents of files, in their order.

    Raises:
        DataError: A file is missing, empty or a directory.
    """
    digest = hashlib.sha256()
    for file in files:
        check_file(file)
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def sampled_version(files: Iterable[Path]) -> str:
    """Returns a hash of the sizes of files and of samples of their contents, in their order.

    It takes as long for files of any size. A change of the size is always seen, one of the content in small
    files always, in large ones only if a sample has it.

    Raises:
        DataError: A file is missing, empty or a directory.
    """
    digest = hashlib.sha256()
    for file in files:
        check_file(file)
        size = file.stat().st_size
        digest.update(f"{size} ".encode())
        with file.open("rb") as stream:
            for number in range(SAMPLES):
                stream.seek(max(size - SAMPLE, 0) * number // (SAMPLES - 1))
                digest.update(stream.read(SAMPLE))
    return digest.hexdigest()


def content_hash(data: "Dataset") -> str:
    """Returns a SHA-256 over all rows; independent of how the file or the memory is laid out."""
    digest = hashlib.sha256(json.dumps(data.column_names).encode())
    for batch in data.with_format("arrow").iter(10_000):
        digest.update(json.dumps(batch.to_pydict(), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
