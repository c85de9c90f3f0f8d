"""An unfinished file of answers, which an interrupted command can continue."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugformer.errors import ConfigurationError, DataError, RunError
from plugformer_cli.answer_files import AnswerFile

COUNTS = ("errors", "truncated", "unknown")
"""What rows are counted for: they have no answer, were cut, or have parts that the vocabulary lacks."""


def hash_of(file: Path) -> str:
    """Returns a hash of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass
class _State:
    """The content of `OUT.part.json`."""

    rows: int
    bytes: int
    counts: dict[str, int]
    requested: dict[str, Any]


@dataclass
class Part:
    """The unfinished file of answers, and what is known of it.

    It is `OUT.part`; `OUT.part.json` holds how many rows and bytes are complete, and what was requested. That
    stays if rows have no answer: the command, when it is repeated, says so again.

    Attributes:
        out: The file when it is complete.
        requested: What the answers depend on, by name; a hash of a file.
        rows: Number of rows that are complete.
        counts: How many of them are one of `COUNTS`.
    """

    out: Path
    requested: Mapping[str, Any]
    rows: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    @property
    def file(self) -> Path:
        """Complete portions, and perhaps the beginning of another."""
        return self.out.with_name(f"{self.out.name}.part")

    @property
    def state(self) -> Path:
        """The numbers of complete rows and bytes, and what was requested."""
        return self.out.with_name(f"{self.out.name}.part.json")

    def begin(self, *, resume: bool) -> bool:
        """Makes room for the first portion, or cuts off what is incomplete; False if the file is complete.

        Raises:
            ConfigurationError: There is a file and no `resume`; or something else was requested.
            RunError: The state is damaged.
        """
        begun = self.file.exists() and self.state.exists()
        if self.out.exists() and (not self.file.exists() or not resume):
            if not resume:
                raise ConfigurationError(f"--out {self.out} exists; delete it, or choose another")
            if self.state.exists():
                self._read()
                self._forget()
            return False
        if not resume:
            if begun:
                raise ConfigurationError(
                    f"{self.file} holds answers of an interrupted command; add --resume, or delete it"
                )
        elif begun:
            self._cut(self._read())
            return True
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.state.unlink(missing_ok=True)
        self.file.write_bytes(b"")
        return True

    def _read(self) -> dict[str, Any]:
        from pydantic import TypeAdapter

        from plugformer.runs import read_json

        state: dict[str, Any] = read_json(self.state, TypeAdapter(_State))
        self.rows, self.counts = state["rows"], state["counts"]
        return state

    def _cut(self, state: Mapping[str, Any]) -> None:
        """Cuts off what was written after the last complete row, if the same was requested."""
        for name in self.requested.keys() | state["requested"].keys():
            before, now = state["requested"].get(name), self.requested.get(name)
            if before != now:
                change = "it has changed" if "file" in name else f"it was {before!r}, now it is {now!r}"
                raise ConfigurationError(
                    f"--resume: {self.file} was begun with another {name}: {change}\n"
                    "write the same command as before, or delete the file"
                )
        if (size := self.file.stat().st_size) < state["bytes"]:
            raise RunError(
                f"{self.file} is damaged: it has {size:,} bytes, expected at least {state['bytes']:,}\n"
                "delete it, and begin again without --resume"
            )
        os.truncate(self.file, state["bytes"])

    def save(self, data: bytes, rows: int, counts: Mapping[str, int]) -> None:
        """Appends complete rows.

        Raises:
            RunError: They cannot be written; what was complete before is kept.
        """
        from plugformer.runs import replacing

        try:
            with self.file.open("ab") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise RunError(
                f"{self.file} cannot be written: {error.strerror or error}; {self.rows:,} rows are complete: "
                "make room, then continue with --resume"
            ) from error
        self.rows += rows
        self.counts = {name: self.counts[name] + counts[name] for name in COUNTS}
        state = {
            "rows": self.rows,
            "bytes": self.file.stat().st_size,
            "counts": self.counts,
            "requested": self.requested,
        }
        with replacing(self.state) as temporary:
            temporary.write_text(json.dumps(state, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")

    def finish(self, form: AnswerFile) -> None:
        """Gives the complete file its name."""
        form.finish(self.file, self.out)
        self._forget()

    def refuse_errors(self) -> None:
        """Raises DataError if rows of the complete file have no answer."""
        if count := self.counts["errors"]:
            raise DataError(f"{count:,} of {self.rows:,} rows had no answer; {self.out} says why")

    def _forget(self) -> None:
        """Deletes the state, unless the command, when it is repeated, has to say that rows have no answer."""
        if not self.counts["errors"]:
            self.state.unlink(missing_ok=True)
