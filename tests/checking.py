"""The check of shapes in calls."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

# Of a list it looks at the first item, not at a random one as beartype does by default: its draws from the
# generator that checkpoints hold change what is trained.
_check = beartype(conf=BeartypeConf(is_random=False))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Has calls of a function check their shapes; a function within another is made too often for that."""
    return function if "<locals>" in function.__qualname__ else _check(function)
