"""The page of a run: what it is, its scores, and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from plugformer_reports.page import Picture, Rows, document, figure, table


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


def page(title: str, facts: Rows, scores: Rows, sections: Sequence[Section]) -> str:
    """Returns the page.

    Args:
        title: What the run is.
        facts: Names and values.
        scores: A row of headings, then split, metric, value and interval of each score; empty if none.
        sections: In their order.
    """
    header = table((), facts) + (table(scores[0], scores[1:]) if scores else "")
    return document(title, header, [(section.title, _content(section)) for section in sections])


def _content(section: Section) -> str:
    return "\n".join(
        [*(f"<p>{escape(text)}</p>" for text in section.paragraphs), *map(figure, section.pictures)]
    )
