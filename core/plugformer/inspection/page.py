"""One HTML page of all figures, which needs no network and no other file."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pkgutil import get_data
from string import Template


@dataclass(frozen=True)
class Picture:
    """A figure on the page.

    Attributes:
        name: Unique on the page.
        title: A heading.
        caption: What is seen.
        svg: An SVG file.
    """

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: A heading.
        paragraphs: What stands before the pictures, as plain text.
        pictures: The figures.
    """

    title: str
    paragraphs: Sequence[str]
    pictures: Sequence[Picture] = ()


Rows = Sequence[Sequence[str]]


def page(title: str, facts: Rows, scores: Rows, sections: Sequence[Section]) -> str:
    """Returns the page.

    Args:
        title: What the run is.
        facts: Names and values.
        scores: A row of headings, then split, metric, value and interval of each score; empty if none.
        sections: In their order.
    """
    content = get_data("plugformer.inspection", "page.html")
    if content is None:  # only of a loader that cannot read data, which Python's own are not
        raise OSError("Plugformer's template page.html cannot be read")
    names = [(f"section-{number}", section) for number, section in enumerate(sections)]
    return Template(content.decode()).substitute(
        title=escape(title),
        facts=_table((), facts) + (_table(scores[0], scores[1:]) if scores else ""),
        contents="\n".join(f'<a href="#{name}">{escape(each.title)}</a>' for name, each in names),
        sections="\n".join(_section(name, section) for name, section in names),
    )


def _section(name: str, section: Section) -> str:
    paragraphs = [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    pictures = [_picture(each) for each in section.pictures]
    heading = f"<h2>{escape(section.title)}</h2>"
    return "\n".join([f'<section id="{name}">', heading, *paragraphs, *pictures, "</section>"])


def _picture(picture: Picture) -> str:
    return (
        f"<figure>\n<h3>{escape(picture.title)}</h3>\n<figcaption>{escape(picture.caption)}</figcaption>\n"
        f'<div class="picture" role="img" aria-label="{escape(picture.title)}">\n'
        f"{_inline(picture.name, picture.svg)}\n</div>\n</figure>"
    )


def _inline(name: str, svg: str) -> str:
    """Returns an SVG file as an element of the page, its identifiers made unique."""
    element = svg[svg.index("<svg") :].strip()
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", element)


def _table(head: Iterable[str], rows: Rows) -> str:
    heading = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{heading}</tr>\n{body}\n</table>\n" if heading else f"<table>\n{body}\n</table>\n"
