"""The examples that a new task starts with, and which columns they can serve."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from plugformer.interfaces import Column


class Offer(NamedTuple):
    """A column of a file of examples.

    Attributes:
        name: Its name there, or its number; empty in plain text.
        holds: As of a task's columns.
        role: As of a task's columns; None for either.
    """

    name: str | int
    holds: str
    role: Literal["input", "output"] | None

    def serves(self, column: Column) -> bool:
        """Returns whether it has what a task's column holds."""
        return self.holds == column.holds and self.role in (None, column.role)


@dataclass(frozen=True)
class Sample:
    """A file of examples; the task file for it has the same name, with .yaml.

    Attributes:
        file: Name of its template.
        offers: Its columns.
        metrics: What measures answers to them, the best known first.
    """

    file: str
    offers: tuple[Offer, ...]
    metrics: tuple[str, ...]

    def columns(self, wanted: Sequence[Column]) -> Mapping[str, str | int] | None:
        """Returns which of its columns serves each of a task's: that of its name, else the next.

        Args:
            wanted: The columns that the task's examples must have.

        Returns:
            Its columns by those of the task; None if it lacks one.
        """
        left = list(self.offers)
        found: dict[str, str | int] = {}
        for column in sorted(wanted, key=lambda each: all(offer.name != each.name for offer in left)):
            fitting = [offer for offer in left if offer.serves(column)]
            if not fitting:
                return None
            chosen = next((offer for offer in fitting if offer.name == column.name), fitting[0])
            left.remove(chosen)
            found[column.name] = chosen.name
        return {column.name: found[column.name] for column in wanted}


SAMPLES: tuple[Sample, ...] = (
    Sample("story.txt", (Offer("", "text", None),), ("perplexity",)),
    Sample(
        "pairs.tsv", (Offer("words", "text", "input"), Offer("digits", "text", "output")), ("exact_match",)
    ),
    Sample("sentences.conll", (Offer(1, "words", "input"), Offer(2, "tags", "output")), ("tag_accuracy",)),
    Sample(
        "reviews.csv",
        (
            Offer("text", "text", "input"),
            Offer("title", "text", "input"),
            Offer("label", "label", "output"),
            Offer("topics", "labels", "output"),
            Offer("stars", "number", "output"),
        ),
        ("accuracy", "micro_f1", "mean_squared_error"),
    ),
)


def described(columns: Iterable[Column]) -> str:
    """Returns columns in words, such as "text (text, input)"."""
    return ", ".join(f"{column.name} ({column.holds}, {column.role})" for column in columns)
