"""Files of examples: read line by line with errors that say where, and told apart by their content."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from io import BufferedIOBase
from pathlib import Path

from plugformer.data.content_hash import content_hash
from plugformer.errors import DataError

LONGEST_LINE = 10**7
"""Bytes of the longest line that is read: longer ones would fill the memory, and are no examples."""

SAMPLES, SAMPLE = 32, 2**18
"""Samples of a file that is too large to be read for its version, and the bytes of each."""


def check_file(file: Path) -> None:
    """Refuses what is not a file with something in it.

    Raises:
        DataError: There is no such file, it is a directory, it is empty, or it may not be read.
    """
    try:
        is_folder = file.is_dir()
    except OSError as error:  # such as of a name that is too long
        raise DataError(f"{file}: {error.strerror}; give the path of a file") from None
    if is_folder:
        raise DataError(f"{file}: is a directory, expected a file; name one file, or a list of files")
    if not file.is_file():
        raise DataError(
            f"{file}: no such file; check the path (one in a task file starts from the folder of that file)"
        )
    if file.stat().st_size == 0:
        raise DataError(f"{file}: is empty, expected at least one line; check how it was made")
    if not os.access(file, os.R_OK):
        raise DataError(f"{file}: may not be read; give yourself the right, for example with chmod u+r")


def read_lines(file: Path, *, strict: bool = True) -> Iterator[str]:
    """Yields a file's lines without their ends; a name ending in .gz is unpacked on the way.

    A byte-order mark is passed over. Only LF and CRLF end a line: other separators of Unicode are text.

    Args:
        file: Its name.
        strict: Whether bytes that are not UTF-8 are an error; else they become lone surrogates, as with
            Python's error handler "surrogateescape".

    Raises:
        DataError: The file is missing, a directory, empty, not UTF-8, or a broken gzip file; or a line is
            longer than any text.
    """
    check_file(file)
    line = 0
    with open_bytes(file) as stream:
        try:
            for line, content in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), start=1):
                if len(content) > LONGEST_LINE:
                    raise _too_long(file, line)
                yield _decode(content, file, line, strict)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{file}:{line + 1}: cannot read on: {error}; the file is cut off or damaged: fetch it again"
            ) from error
    if line == 0:
        raise DataError(f"{file}: is empty, expected at least one line; check how it was made")


def _too_long(file: Path, line: int) -> DataError:
    return DataError(
        f"{file}:{line}: the line is longer than {LONGEST_LINE:,} bytes, expected one example; "
        "end lines with a line feed, and divide longer texts"
    )


def open_bytes(file: Path) -> BufferedIOBase:
    """Opens a file for reading, through gzip where its name says so."""
    if file.suffix == ".gz":
        return gzip.open(file, "rb")
    return file.open("rb")


def _decode(content: bytes, file: Path, line: int, strict: bool) -> str:
    """Decodes one line as UTF-8 and takes its end away."""
    try:
        text = content.decode(
            "utf-8-sig" if line == 1 else "utf-8", "strict" if strict else "surrogateescape"
        )
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}:{line}: byte {error.start + 1} of the line ({content[error.start]:#04x}) is not UTF-8; "
            "convert the file, for example with iconv -t UTF-8"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def fingerprint(*parts: str) -> str:
    """Returns a short hash of texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def files_version(files: Iterable[Path], *, sampled: bool = False) -> str:
    """Returns a hash of the contents of files, in their order.

    Args:
        files: Their names.
        sampled: Take their sizes and samples of their contents, which takes as long for files of any size. A
            change of the size is always seen, one of the content in small files always, in large ones only if
            a sample has it.

    Raises:
        DataError: A file is missing, empty or a directory.
    """
    digest = hashlib.sha256()
    for file in files:
        check_file(file)
        digest.update(_samples(file) if sampled else bytes.fromhex(content_hash(file)))
    return digest.hexdigest()


def _samples(file: Path) -> bytes:
    """Returns the size of a file and samples of its content."""
    size = file.stat().st_size
    parts = [f"{size} ".encode()]
    with file.open("rb") as stream:
        for number in range(SAMPLES):
            stream.seek(max(size - SAMPLE, 0) * number // (SAMPLES - 1))
            parts.append(stream.read(SAMPLE))
    return b"".join(parts)
