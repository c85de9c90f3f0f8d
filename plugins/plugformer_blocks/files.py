"""Files of examples, read line by line with errors that say where."""

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

from plugformer.errors import DataError


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

    A byte-order mark is left out. Only LF and CRLF end a line: other separators of Unicode are text. Unless
    `strict`, bytes that are not UTF-8 become lone surrogates, as with Python's handler "surrogateescape".

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
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")
