"""Files of examples: read line by line with errors that say where, and the counts of their rows.

Data components import this module, so it does not import `datasets`.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path

from plugformer.errors import DataError

SHOWN = 3  # faults in a notice
FEW = 0.03  # the largest share of bad rows without a warning


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


def fingerprint(*parts: str) -> str:
    """Returns a short hash of texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def files_version(files: Iterable[Path]) -> str:
    """Returns a hash of the contents of files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@dataclass
class SplitStats:
    """Counts of the rows that were read; a row counts again in every pass.

    Bad rows are left out because of a fault, dropped examples because of their length. The longest side is
    counted in tokens, without special tokens, before it is truncated.
    """

    rows: int = 0
    bad: int = 0
    faults: list[str] = field(default_factory=list)
    dropped: int = 0
    truncated: int = 0
    longest: int = 0

    def leave_out(self, fault: str, rows: int = 1) -> None:
        """Counts rows that have a fault."""
        self.bad += rows
        self.faults = [*self.faults, fault][:SHOWN]

    def notices(self, split: str) -> list[str]:
        """Returns notices about bad rows."""
        if not self.bad:
            return []
        skipped = f"{split}: bad rows skipped: {self.bad:,} of {self.rows:,} ({self.bad / self.rows:.1%})"
        first = f"{skipped}; the first:"
        if self.bad > FEW * self.rows:
            first = f"WARNING: {skipped}: do the options of data fit? The first:"
        return ["\n  ".join([first, *self.faults])]

    def __str__(self) -> str:
        parts = [f"{self.rows - self.bad} examples, longest side {self.longest} tokens"]
        parts += [f"{self.dropped} dropped"] if self.dropped else []
        parts += [f"{self.truncated} truncated"] if self.truncated else []
        return ", ".join(parts)
