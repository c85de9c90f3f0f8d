"""HTML pages of figures and tables, which need no network and no other file."""

import re
from collections.abc import Collection, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # matplotlib takes a second
    from plugformer_reports.drawing import Drawing

Rows = Sequence[Sequence[str]]
"""Cells of a table, row by row."""


def document(title: str, header: str, sections: Sequence[tuple[str, str]]) -> str:
    """Returns a page with links to its sections.

    Args:
        title: Its heading, as plain text.
        header: What stands below, as HTML.
        sections: Titles, as plain text, and contents, as HTML.
    """
    content = files("plugformer_reports").joinpath("page.html").read_text(encoding="utf-8")
    named = [(f"section-{number}", *section) for number, section in enumerate(sections)]
    return Template(content).substitute(
        title=escape(title),
        facts=header,
        contents="\n".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in named),
        sections="\n".join(
            f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{body}\n</section>'
            for name, heading, body in named
        ),
    )


def figure(drawing: "Drawing", svg: bytes) -> str:
    """Returns a drawing with heading and caption, as HTML.

    Args:
        drawing: Its name makes the identifiers in the image unique on the page.
        svg: The file that it was rendered to.
    """
    image = svg.decode()
    element = image[image.index("<svg") :].strip()
    unique = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{drawing.name}-", element)
    return (
        f"<figure>\n<h3>{escape(drawing.title)}</h3>\n<figcaption>{escape(drawing.caption)}</figcaption>\n"
        f'<div class="picture" role="img" aria-label="{escape(drawing.title)}">\n'
        f"{unique}\n</div>\n</figure>"
    )


def table(head: Sequence[str], rows: Rows, numbers: Collection[str] = ()) -> str:
    """Returns a table of plain text, as HTML.

    Args:
        head: Names of the columns; empty if they have none.
        rows: The cells.
        numbers: The columns that are aligned to the right.
    """
    classes = [' class="number"' if name in numbers else "" for name in head] or [""] * max(
        map(len, rows), default=0
    )
    heading = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, classes, strict=False))
    lines = [
        "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, classes, strict=True))
        for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in ([heading] if head else []) + lines)
    return f'<div class="table"><table>\n{body}\n</table></div>\n'
