"""A column of days, and a task type that predicts them."""

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    Batch,
    Column,
    ColumnKind,
    Example,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)

if TYPE_CHECKING:
    from datasets import Value

_ORIGIN = date(2000, 1, 1)
_YEAR = 365.2425  # days


class Day(ColumnKind):
    """A day of the calendar, written as in ISO 8601: 2024-02-29.

    See https://www.iso.org/iso-8601-date-and-time-format.html.
    """

    @property
    def feature(self) -> "Value":
        """A string."""
        from datasets import Value  # slow to import

        return Value("string")

    def read(self, cell: object) -> str:
        """Returns the day.

        Raises:
            ValueError: There is no such day.
        """
        try:
            return date.fromisoformat(str(cell)).isoformat()
        except ValueError:
            raise ValueError(f"is {cell!r}, expected a day such as 2024-02-29") from None

    def example(self, draw: random.Random, along: Any = None) -> str:  # noqa: ARG002
        """Returns a day of four years."""
        return (_ORIGIN + timedelta(days=draw.randrange(1461))).isoformat()


class Dating(TaskType):
    """Predicts when a text was written, as a number of years since 2000.

    See https://aclanthology.org/P12-1011.
    """

    level = Level.SEQUENCE
    output_type = OutputType.NUMBER
    outputs = 1
    columns = (Column("text", "text", "input", tokenizer="source"), Column("day", "day", "output"))

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts, and years."""
        encoded: dict[str, Sequence[Any]] = {"input": tokenizers.source.encode(examples["text"])}
        if "day" in examples:
            encoded["targets"] = list(map(_years, examples["day"]))
        return encoded

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:  # noqa: ARG002
        """Returns the years of each text."""
        if n_best > 1:
            raise ConfigurationError("a day has no alternatives")
        return list(map(Prediction, model.logits(batch)[:, 0].tolist()))

    def references(self, example: Example) -> list[Any]:
        """Returns the years of the day."""
        return [_years(example["day"])]


def _years(day: str) -> float:
    return (date.fromisoformat(day) - _ORIGIN).days / _YEAR
