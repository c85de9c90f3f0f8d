"""Files of examples: read line by line with errors that say where, and identified by their content."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedIOBase
from pathlib import Path
from uuid import uuid4

from plugformer.cache import cache_folder, remove_unused
from plugformer.errors import DataError

SAMPLES, SAMPLE = 32, 2**18
"""Number and bytes of the samples by which a file to be streamed is identified."""

LARGE = 2**20
"""Bytes from which on the hash of a file is kept in the cache."""


def check_file(file: Path) -> None:
    """Raises DataError if a file is missing, a directory or empty."""
    if file.is_dir():
        raise DataError(f"{file}: is a directory, expected a file; name one file, or a list of files")
    if not file.is_file():
        raise DataError(
            f"{file}: no such file; check the path (one in a task file starts from the folder of that file)"
        )
    if file.stat().st_size == 0:
        raise DataError(f"{file}: is empty, expected at least one line; check how it was made")


def read_lines(file: Path, *, strict: bool = True) -> Iterator[str]:
    """Yields a file's lines without their ends; a file whose name ends in .gz is unpacked.

    A byte-order mark is left out. Only LF and CRLF end a line: other separators of Unicode are text.

    Args:
        file: Its path.
        strict: Whether bytes that are not UTF-8 are an error; else they become lone surrogates, as with
            Python's error handler "surrogateescape".

    Raises:
        DataError: The file is missing, a directory, empty, not UTF-8, or a broken gzip file.
    """
    check_file(file)
    line = 0
    errors = "strict" if strict else "surrogateescape"
    with open_bytes(file) as stream:
        try:
            for line, content in enumerate(stream, start=1):
                text = content.decode("utf-8-sig" if line == 1 else "utf-8", errors)
                yield text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file}:{line}: byte {error.start + 1} of the line ({error.object[error.start]:#04x}) is "
                "not UTF-8; convert the file, for example with iconv -t UTF-8"
            ) from None
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{file}:{line + 1}: cannot read on: {error}; the file is cut off or damaged: fetch it again"
            ) from error
    if line == 0:
        raise DataError(f"{file}: is empty, expected at least one line; check how it was made")


def open_bytes(file: Path) -> BufferedIOBase:
    """Opens a file for reading, through gzip if its name ends in .gz."""
    if file.suffix == ".gz":
        return gzip.open(file, "rb")
    return file.open("rb")


def fingerprint(*parts: str) -> str:
    """Returns a short hash of texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def files_version(files: Iterable[Path], *, sampled: bool = False) -> str:
    """Returns a hash of the contents of files, in their order.

    Args:
        files: Their paths.
        sampled: Hash the size of each file and samples of its content, which takes equally long for files of
            any size, but misses a change outside of the samples.

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


def content_hash(file: Path) -> str:
    """Returns a SHA-256 of a file's content.

    The hash of a large file is kept in the cache as long as its size and the times of its changes stay the
    same.
    """
    state = file.stat()
    if state.st_size < LARGE:
        return _hash(file)
    record = cache_folder() / "hashes" / f"{state.st_dev}-{state.st_ino}.json"
    signature = [state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    with suppress(OSError, ValueError):
        known, digest = json.loads(record.read_bytes())
        # A change in the same tick of the clock as the record's own would leave the file's times as they are.
        if known == signature and record.stat().st_mtime_ns > max(signature[1:]):
            return str(digest)
    digest = _hash(file)
    temporary = record.with_name(f"{record.stem}-{uuid4().hex}")
    with suppress(OSError):  # the cache need not be writable
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps([signature, digest]), encoding="utf-8")
        temporary.replace(record)
        remove_unused(record.parent)
    return digest


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
