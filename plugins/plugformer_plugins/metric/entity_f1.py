"""Entity F1: entities found with the right beginning, end and type."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from plugformer.interfaces import Answer
from plugformer_plugins.metric.f1 import MicroF1

Entity = tuple[str, int, int]
"""Type, first word and the one behind the last."""


class EntityF1(MicroF1):
    """The F1 of CoNLL 2003 over entities: https://aclanthology.org/W03-0419, section 2.4.

    Strict: a tag that continues no entity of its own type, as I-PER after O, belongs to none.

    Args:
        scheme: IOB2 writes B- at an entity's first word and I- at others; IOBES also E- at the last and S- at
            the only one.
    """

    accepts = frozenset({Answer.TAGS})
    check_examples = (("B-PER I-PER O", "B-PER O O"), ("O B-LOC", "B-LOC B-LOC"))

    def __init__(
        self,
        *,
        scheme: Annotated[Literal["IOB2", "IOBES"], Field(description="How tags mark entities.")] = "IOB2",
    ) -> None:
        self._scheme = scheme

    def found(self, answer: Sequence[str]) -> set[Entity]:
        """Returns the entities."""
        return set(_iobes(answer) if self._scheme == "IOBES" else _iob2(answer))

    def signature(self, references: Sequence[Sequence[Sequence[str]]]) -> str:  # noqa: ARG002
        """Returns the scheme."""
        return f"scheme:{self._scheme}|mode:strict|average:micro"


def _iob2(tags: Sequence[str]) -> list[Entity]:
    entities: list[Entity] = []
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, own = tag.partition("-")
        if mark == "I" and own == kind and kind:
            continue
        if kind:
            entities.append((kind, start, place))
        start, kind = place, own if mark == "B" else ""
    return entities


def _iobes(tags: Sequence[str]) -> list[Entity]:
    entities: list[Entity] = []
    start, kind = 0, ""
    for place, tag in enumerate(tags):
        mark, _, own = tag.partition("-")
        if mark == "S":
            entities.append((own, place, place + 1))
        if mark == "E" and own == kind and kind:
            entities.append((kind, start, place + 1))
        if mark == "B":
            start, kind = place, own
        elif mark != "I" or own != kind:
            kind = ""
    return entities
