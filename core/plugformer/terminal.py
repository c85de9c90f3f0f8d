"""Text that others wrote, made fit for a terminal."""

import re
from itertools import accumulate

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Returns a text with its control characters, but for tab and line feed, spelled out as `\x1b`.

    What data, manifests and task files say is printed; a terminal would take escape sequences for commands.
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def clipped(line: str, width: int | None) -> str:
    """Returns the line, with an ellipsis at its end if it is wider than `width` columns."""
    if width is None or display_width(line) <= width:
        return line
    widths = accumulate(map(display_width, line))
    return f"{line[: sum(each < width for each in widths)].rstrip()}…"


def aligned(text: str, width: int, *, right: bool = False) -> str:
    """Returns the text with spaces before or after it, so that it takes so many columns of a terminal."""
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def display_width(text: str) -> int:
    """Returns the columns that a text takes on a terminal: two for each Chinese character, for example."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 13 ms, which most calls of `list` do without

    return cell_len(text)
