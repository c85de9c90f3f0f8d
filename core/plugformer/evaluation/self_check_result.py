"""What a model's self-check found: answers computed in two ways, and how far these are apart."""

import math
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-3
"""Difference of log-probabilities, in nats, up to which two computations agree.

Rounding in float32 stays a hundred times below it; what is computed wrongly is a hundred times above it.
"""


@dataclass(frozen=True)
class Comparison:
    """One way to compute answers against another.

    Attributes:
        name: Of both ways.
        difference: The largest, in nats; not a number where the model computes none.
        example: The input that shows it.
        likely: What is probably wrong if they differ.
        error: What a component raised; then there is no difference.
    """

    name: str
    difference: float
    example: str
    likely: str
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether both ways agree; what is not a number agrees with nothing."""
        return not self.error and self.difference <= TOLERANCE

    def as_json(self) -> dict[str, Any]:
        """Returns the form in `self_check.json`; what a failure needs stands there only if it is one."""
        record = {
            "check": self.name,
            "passed": self.passed,
            "difference": self.difference if math.isfinite(self.difference) else None,
        }
        if self.passed:
            return record
        return {**record, "error": self.error or None, "input": self.example, "likely": self.likely}

    def __str__(self) -> str:
        """Returns what went wrong, for people."""
        if self.error:
            return f"{self.name}: {self.error}"
        return f"{self.name}: log-probabilities differ by {self.difference:.3g}, more than {TOLERANCE}"


@dataclass(frozen=True)
class SelfCheck:
    """All comparisons of a model.

    Attributes:
        comparisons: Each with its result.
        examples: Number of examples that they were made with.
    """

    comparisons: list[Comparison]
    examples: int

    @property
    def passed(self) -> bool:
        """Whether all agree."""
        return not self.failed

    @property
    def failed(self) -> list[Comparison]:
        """Those that do not agree."""
        return [each for each in self.comparisons if not each.passed]

    def as_json(self) -> dict[str, Any]:
        """Returns the form in `self_check.json`."""
        checks = [each.as_json() for each in self.comparisons]
        return {"passed": self.passed, "examples": self.examples, "tolerance": TOLERANCE, "checks": checks}

    def __str__(self) -> str:
        """Returns one line about success."""
        names = ", ".join(each.name for each in self.comparisons)
        largest = max((each.difference for each in self.comparisons), default=0.0)
        return f"{names} ({self.examples} examples, differences up to {largest:.0e})"
