"""Entity F1: entities found with the right beginning, end and type."""

from collections.abc import Sequence
from typing import Annotated, Literal

from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.errors import DataError
from plugformer.interfaces import Answer
from plugformer_plugins.metric.f1 import MicroF1

Entity = tuple[str, int, int]
"""Type, first word and the one behind the last."""

_MARKS = {"IOB2": ("B", "I"), "IOBES": ("B", "I", "E", "S")}

_EXAMPLES = {
    "IOB2": ((["B-PER", "I-PER", "O"], ["B-PER", "O", "O"]), (["O", "B-LOC"], ["O", "B-PER"])),
    "IOBES": ((["B-PER", "E-PER", "O"], ["S-PER", "O", "O"]), (["O", "S-LOC"], ["O", "S-PER"])),
}


class EntityF1(MicroF1):
    """The F1 of CoNLL 2003 over entities: https://aclanthology.org/W03-0419, section 2.4.

    Strict: a tag that continues no entity of its own type, as I-PER after O, belongs to none.

    Args:
        scheme: IOB2 writes B- at an entity's first word and I- at others; IOBES also E- at the last and S- at
            the only one.
    """

    accepts = frozenset({Answer.TAGS})

    def __init__(
        self,
        *,
        scheme: Annotated[Literal["IOB2", "IOBES"], Field(description="How tags mark entities.")] = "IOB2",
    ) -> None:
        self._scheme = scheme
        self.check_examples = _EXAMPLES[scheme]

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 3"]:
        """Returns the number of hits, of entities found, and of right ones.

        Raises:
            DataError: Most of the right tags other than O are in no entity: they follow another scheme.
        """
        self._require_entities([right[0] for right in references])
        return super().statistics(predictions, references)

    def _require_entities(self, answers: Sequence[Sequence[str]]) -> None:
        """Refuses right answers most of whose entities would be passed over; a few are mistakes."""
        inside = sum(end - start for answer in answers for _, start, end in self.found(answer))
        tagged = sum(tag != "O" for answer in answers for tag in answer)
        if 2 * inside < tagged:
            raise DataError(
                f"of {tagged:,} right tags other than O, {tagged - inside:,} are in no entity of the scheme "
                f"{self._scheme}: they follow another one; give entity_f1 the scheme that the data follow, "
                "rewrite data in IOB1, whose entities begin with I-TYPE, as IOB2, or measure tag_accuracy"
            )

    def found(self, answer: Sequence[str]) -> set[Entity]:
        """Returns the entities.

        Raises:
            DataError: A tag is none of the scheme.
        """
        for tag in answer:
            mark, dash, kind = tag.partition("-")
            if tag != "O" and not (mark in _MARKS[self._scheme] and dash and kind):
                marks = ", ".join(f"{each}-TYPE" for each in _MARKS[self._scheme])
                raise DataError(
                    f"tag {tag!r} is none of the scheme {self._scheme}, expected O, {marks}; give entity_f1 "
                    "the scheme that the data follow, or measure tag_accuracy"
                )
        return set(_iobes(answer) if self._scheme == "IOBES" else _iob2(answer))

    def signature(self, references: Sequence[Sequence[Sequence[str]]]) -> str:
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
