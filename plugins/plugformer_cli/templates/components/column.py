"""Days of the calendar."""

import random
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import ColumnKind

if TYPE_CHECKING:
    from datasets import Value


class NewComponent(ColumnKind):
    """A day such as 2024-02-29.

    A task type names it: `Column("day", "new_component", "output")`. ISO 8601, see
    https://docs.python.org/3/library/datetime.html#datetime.date.fromisoformat.
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

    def example(self, draw: random.Random, along: Any = None) -> str:
        """Returns a day of 200 years."""
        return (date(1900, 1, 1) + timedelta(days=draw.randrange(73_000))).isoformat()
