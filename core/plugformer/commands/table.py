"""Text on standard output that fits a terminal, and is left as it is in a pipe."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence

import typer

from plugformer.terminal import aligned, clipped, display_width, printable


def terminal_width() -> int | None:
    """Returns the columns of the terminal, or None where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Prints rows in aligned columns; on a terminal the last column is cut where the line ends.

    Args:
        header: The columns' names.
        rows: Their values; without line breaks.
        right: Columns that are aligned to the right.
    """
    table = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(display_width(row[column]) for row in table) for column in range(len(header))]
    limit = terminal_width()
    for number, row in enumerate(table):
        cells = [
            aligned(cell, width, right=name in right)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        line = clipped("  ".join(cells).rstrip(), limit)
        typer.echo(typer.style(line, bold=True) if number == 0 and limit else line)


def print_text(text: str, indent: int = 0) -> None:
    """Prints a text line by line; on a terminal long lines are wrapped."""
    width, margin = terminal_width(), " " * indent
    for line in printable(text).splitlines():
        for part in [line] if width is None else textwrap.wrap(line, max(width - indent, 20)):
            typer.echo(margin + part)
