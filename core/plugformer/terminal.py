"""Text that others wrote, made fit for a terminal."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Returns a text with its control characters, but for tab and line feed, spelled out as `\x1b`.

    What data, manifests and task files say is printed; a terminal would take escape sequences for commands.
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def clipped(line: str, width: int | None) -> str:
    """Returns a line, with an ellipsis at its end if it is longer than `width` characters."""
    return line if width is None or len(line) <= width else f"{line[: width - 1].rstrip()}…"
