"""What arms cost, and the order in which this is found out."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def rotated(items: Sequence[Item], number: int) -> list[Item]:
    """Returns the items in a round's order: each round begins with the next one."""
    start = number % len(items)
    return [*items[start:], *items[:start]]
