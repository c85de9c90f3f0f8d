"""The last result of `plugformer check` for each component, kept for each user.

A result belongs to the source that was checked: once that has changed, the result is stale. To find out,
nothing is imported.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plugformer.cache import cache_folder
from plugformer.kinds import Kind
from plugformer.registry import Entry, State
from plugformer.terminal import clipped

_WIDEST = 30
"""Characters of a result in a list."""


@dataclass(frozen=True, slots=True)
class LastCheck:
    """A saved result.

    Attributes:
        summary: How many checks passed, in words.
        passed: Whether none failed.
        stale: Whether the component's source has changed since.
        plugformer: The version of the suite.
        day: When, as an ISO date.
        counts: How many `checks` there are, and how many of them `passed` and `failed`.
        options: That were given, `name=value` each; an empty text if none were.
    """

    summary: str
    passed: bool
    stale: bool
    plugformer: str
    day: str
    counts: dict[str, int]
    options: str = ""

    def __str__(self) -> str:
        stale = "; stale: the source has changed since" if self.stale else ""
        given = f" with {self.options}" if self.options else ""
        return f"{self.summary}{given}, plugformer {self.plugformer}, {self.day}{stale}"

    def brief(self) -> str:
        """Returns the result in a few words: `42 of 42`, `3 failed` or `stale`, and the options if any."""
        if self.stale:
            return "stale"
        counts = self.counts
        brief = f"{counts['passed']} of {counts['checks']}" if self.passed else f"{counts['failed']} failed"
        return clipped(f"{brief} ({self.options})", _WIDEST) if self.options else brief

    def as_json(self) -> dict[str, str | bool]:
        """Returns what scripts read."""
        names = ("summary", "passed", "stale", "plugformer", "day", "options")
        return {name: getattr(self, name) for name in names}


def save_check(record: dict[str, Any]) -> None:
    """Keeps a report (its `as_json`) as the last one of its component, unless the place is read-only."""
    file = _file(record["distribution"], record["subject"])
    text = json.dumps({**record, "day": datetime.now(UTC).date().isoformat()}, ensure_ascii=False, indent=1)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError:
        return


def last_check(entry: Entry) -> LastCheck | None:
    """Returns the last result of a component; None if there is none that can be read."""
    if entry.kind not in list(Kind) or entry.state is State.QUARANTINED:
        return None
    file = _file(entry.distribution, f"{entry.kind}/{entry.name}")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        counts = {name: record["counts"][name] for name in ("checks", "passed", "failed")}
        summary, plugformer, day = (str(record[name]) for name in ("summary", "plugformer", "day"))
        passed, source = bool(record["passed"]), record["source"]
        options = ", ".join(f"{name}={json.dumps(value)}" for name, value in record["options"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    from plugformer.registry.source import source_hash  # parses code, which most listings need not

    stale = source != source_hash(entry.target.partition(":")[0])
    return LastCheck(summary, passed, stale, plugformer, day, counts, options)


def _file(distribution: str, subject: str) -> Path:
    return cache_folder() / "checks" / distribution / f"{subject}.json"
