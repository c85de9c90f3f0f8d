"""The result of checking a component or a distribution: one outcome for each check."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from typing import Any


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED_FAILURE = "expected failure"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one check ended, after how many seconds.

    Attributes:
        message: What is wrong; for a skip or an expected failure, the reason; for a pass, a note or nothing.
        case: The smallest failing case, or nothing.
        traceback: The traceback of an exception that the component raised, or nothing.
    """

    check: str
    status: Status
    message: str = ""
    case: str = ""
    seconds: float = 0.0
    traceback: str = ""

    def __str__(self) -> str:
        where = f" [smallest case: {self.case}]" if self.case else ""
        return f"{self.check}: {self.message}{where}" if self.message else self.check


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckReport:
    """The outcomes of all checks of one component, or of all components of a distribution.

    It is true if no check failed, so that a test can say `assert check(MyAttention)`.

    Attributes:
        component: The component as `kind/name`, or the name of the distribution.
        distribution: Who offers it; `local` for a class.
        outcomes: One for each check, whether it ran or not.
        components: A report for each component of a distribution; empty for a single component.
    """

    component: str
    distribution: str
    version: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    outcomes: tuple[Outcome, ...] = ()
    components: tuple["CheckReport", ...] = ()

    @classmethod
    def of_components(cls, name: str, reports: tuple["CheckReport", ...]) -> "CheckReport":
        """Returns one report about several components."""
        outcomes = tuple(outcome for report in reports for outcome in report.outcomes)
        return cls(component=name, distribution=name, outcomes=outcomes, components=reports)

    def of(self, status: Status) -> list[Outcome]:
        """Returns the outcomes of that status."""
        return [outcome for outcome in self.outcomes if outcome.status is status]

    @property
    def passed(self) -> bool:
        """Whether no check failed. Skipped checks do not count: see `counts`."""
        return not self.of(Status.FAILED)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def counts(self) -> dict[str, int]:
        """How many checks there are (`checks`), and how many ended in each way."""
        ended = {status.value.replace(" ", "_"): len(self.of(status)) for status in Status}
        return {"checks": len(self.outcomes), **ended}

    def summary(self) -> str:
        """Returns one line: `23 of 23 checks passed`, or what is wrong.

        A report with skipped checks begins with PARTIAL and never says that all checks passed.
        """
        checks, passed, failed, skipped, expected = self.counts.values()
        problems = [f"{failed} failed"] * bool(failed) + [f"{expected} failed as declared"] * bool(expected)
        if not skipped:
            return ", ".join([f"{passed} of {checks} checks passed", *problems])
        problems = problems or ["none of them failed"] * (checks > skipped)
        return ", ".join([f"PARTIAL: {checks - skipped} of {checks} checks ran", *problems])

    def __repr__(self) -> str:
        """Returns the summary and the failures on one line, as pytest shows it for a failing `assert`."""
        return f"<{'; '.join(str(self).splitlines())}>"

    def __str__(self) -> str:
        failures = [
            f"{report.component} {outcome}"
            for report in self.components or (self,)
            for outcome in report.of(Status.FAILED)
        ]
        return "\n    ".join([f"{self.component}: {self.summary()}", *failures])

    def _repr_html_(self) -> str:
        """Returns a table of all checks for Jupyter."""
        rows = [
            f"<tr><td>{escape(report.component)}</td><td>{outcome.check}</td><td>{outcome.status}</td>"
            f"<td>{escape(str(outcome).partition(': ')[2])}</td></tr>"
            for report in self.components or (self,)
            for outcome in report.outcomes
        ]
        header = "<tr><th>component</th><th>check</th><th>status</th><th>message</th></tr>"
        return f"<p>{escape(self.component)}: {self.summary()}</p><table>{header}{''.join(rows)}</table>"

    def as_json(self) -> dict[str, Any]:
        """Returns the report about one component as plain values."""
        record = asdict(self)
        checks, _ = record.pop("outcomes"), record.pop("components")
        ended = {"summary": self.summary(), "passed": self.passed, "counts": self.counts}
        return record | ended | {"checks": checks}
