"""What a run of the contract suite found: one outcome for each check, and a report of all of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED_FAILURE = "expected failure"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one check ended.

    Attributes:
        check: The check's name.
        status: How it ended.
        message: What is wrong, in plain words; of a skip or an expected failure, its reason; of a pass, what
            there is to note, such as that it was declared to fail.
        case: The smallest failing case; empty where there is none, or the check has only one.
        seconds: Time that it took.
        traceback: Of what the component raised; empty if it raised nothing.

    Raises:
        ValueError: Anything but a pass has no message.
    """

    check: str
    status: Status
    message: str = ""
    case: str = ""
    seconds: float = 0.0
    traceback: str = ""

    def __post_init__(self) -> None:
        if self.status is not Status.PASSED and not self.message.strip():
            raise ValueError(f"check {self.check!r} {self.status}, but nobody says why; give a message")

    def __str__(self) -> str:
        where = f" [smallest case: {self.case}]" if self.case else ""
        return f"{self.check}: {self.message}{where}" if self.message else self.check


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcomes of all checks of one component.

    Attributes:
        subject: The component as `kind/name`.
        distribution: Who offers it.
        version: That distribution's version.
        source: Hash of the modules that the component is made of.
        plugformer: The version of the suite.
        options: The options that it was constructed with, beside its defaults.
        outcomes: One for each check of its kind, whether it ran or not.
    """

    subject: str
    distribution: str
    version: str
    source: str
    plugformer: str
    options: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]

    def of(self, status: Status) -> list[Outcome]:
        """Returns the outcomes of that status."""
        return [outcome for outcome in self.outcomes if outcome.status is status]

    @property
    def passed(self) -> bool:
        """Whether no check failed; it says nothing of how many ran."""
        return not self.of(Status.FAILED)

    @property
    def counts(self) -> dict[str, int]:
        """How many checks there are (`checks`), and how many ended in each way."""
        ended = {status.value.replace(" ", "_"): len(self.of(status)) for status in Status}
        return {"checks": len(self.outcomes), **ended}

    def summary(self) -> str:
        """Returns one line: `23 of 23 checks passed`, or what is wrong with it.

        A report with skips begins with PARTIAL and never says that all checks passed.
        """
        checks, skipped = len(self.outcomes), len(self.of(Status.SKIPPED))
        failed, expected = len(self.of(Status.FAILED)), len(self.of(Status.EXPECTED_FAILURE))
        parts = [f"{failed} failed"] * bool(failed) + [f"{expected} failed as declared"] * bool(expected)
        if skipped:
            found = ", ".join(parts) if parts else "none of them failed"
            ran = f"{checks - skipped} of {checks} checks ran"
            return f"PARTIAL: {ran}, {found}" if checks > skipped else f"PARTIAL: {ran}"
        return ", ".join([f"{len(self.of(Status.PASSED))} of {checks} checks passed", *parts])

    def as_json(self) -> dict[str, Any]:
        """Returns the report as plain values."""
        record = asdict(self)
        checks = list(record.pop("outcomes"))
        found = {"summary": self.summary(), "passed": self.passed, "counts": self.counts, "checks": checks}
        return record | found
