"""Hashes of files, and the counts of the rows of a split."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 3  # faults in a notice
FEW = 0.03  # the largest share of bad rows without a warning


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

    def add(self, other: "SplitStats") -> None:
        """Adds other counts."""
        self.rows += other.rows
        self.bad += other.bad
        self.faults = [*self.faults, *other.faults][:SHOWN]
        self.dropped += other.dropped
        self.truncated += other.truncated
        self.longest = max(self.longest, other.longest)

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
