"""Entity F1: entities found with the right beginning, end and type."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from jaxtyping import Float
from numpy import ndarray

from plugformer.errors import DataError
from plugformer.interfaces import OutputType
from plugformer_plugins.metric.f1 import MicroF1

Entity = tuple[str, int, int]
"""Type, first word and the one behind the last."""


class Scheme(NamedTuple):
    """What tags a scheme writes before a type.

    Attributes:
        begin: At the first word of an entity.
        inside: At others.
        end: At the last of several words; as at others if empty.
        single: At the only word; as at the first if empty.
        between: At the first word, directly behind an entity of the same type; as at any first word if empty.
    """

    begin: str
    inside: str
    end: str = ""
    single: str = ""
    between: str = ""

    @property
    def marks(self) -> list[str]:
        """Everything that it writes, the first word first."""
        return list(dict.fromkeys(filter(None, self)))


SCHEMES = {
    "IOB1": Scheme("I", "I", between="B"),
    "IOB2": Scheme("B", "I"),
    "BIO": Scheme("B", "I"),
    "IOBES": Scheme("B", "I", "E", "S"),
    "BIOES": Scheme("B", "I", "E", "S"),
    "BILOU": Scheme("B", "I", "L", "U"),
    "BMES": Scheme("B", "M", "E", "S"),
    "BMEWO": Scheme("B", "M", "E", "W"),
}
"""Ramshaw and Marcus 1995, https://aclanthology.org/W95-0107 (IOB1); Tjong Kim Sang and Veenstra 1999,
https://aclanthology.org/E99-1023 (IOB2); Ratinov and Roth 2009, https://aclanthology.org/W09-1119 (BILOU)."""


def _examples(scheme: Scheme) -> tuple[tuple[list[str], list[str]], ...]:
    first, last, only = scheme.begin, scheme.end or scheme.inside, scheme.single or scheme.begin
    return (
        ([f"{first}-PER", f"{last}-PER", "O"], [f"{only}-PER", "O", "O"]),
        (["O", f"{only}-LOC"], ["O", f"{only}-PER"]),
    )


class EntityF1(MicroF1):
    """The F1 of CoNLL 2003 over entities: https://aclanthology.org/W03-0419, section 2.4.

    Strict: a tag that has no place where it stands, such as I-PER after O in IOB2, belongs to no entity; as
    `seqeval` counts with `mode="strict"`: https://github.com/chakki-works/seqeval.

    Args:
        scheme: IOB2, or BIO, writes B- at an entity's first word and I- at others; IOB1 writes I- at all,
            and B- only where an entity of the same type ends before. Others also mark the last word, and the
            only one: IOBES, or BIOES, with E- and S-, BILOU with L- and U-, BMES with E- and S-, BMEWO with
            E- and W-; those two write M- inside.
    """

    accepts = frozenset({OutputType.TAGS})

    def __init__(
        self, *, scheme: Literal["IOB1", "IOB2", "BIO", "IOBES", "BIOES", "BILOU", "BMES", "BMEWO"] = "IOB2"
    ) -> None:
        self._name = scheme
        self._scheme = SCHEMES[scheme]
        self.check_examples = _examples(self._scheme)

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
                f"{self._name}: they follow another one; give entity_f1 the scheme that the data follow, of "
                f"{', '.join(SCHEMES)}, or measure tag_accuracy"
            )

    def found(self, answer: Sequence[str]) -> set[Entity]:
        """Returns the entities.

        Raises:
            DataError: A tag is none of the scheme.
        """
        marks = self._scheme.marks
        for tag in answer:
            mark, dash, kind = tag.partition("-")
            if tag != "O" and not (mark in marks and dash and kind):
                raise DataError(
                    f"tag {tag!r} is none of the scheme {self._name}, expected O, "
                    f"{', '.join(f'{each}-TYPE' for each in marks)}; give entity_f1 the scheme that the data "
                    f"follow, of {', '.join(SCHEMES)}, or measure tag_accuracy"
                )
        return set(_entities(answer, self._scheme))

    def signature(self, references: Sequence[Sequence[Sequence[str]]]) -> str:
        """Returns the scheme."""
        return f"scheme:{self._name}|mode:strict|average:micro"


def _entities(tags: Sequence[str], scheme: Scheme) -> Iterator[Entity]:
    """Yields the entities of a text."""
    start, kind, before = 0, "", ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, own = tag.partition("-")
        continues = bool(kind) and own == kind and mark in (scheme.inside, scheme.end)
        if kind and not continues and not scheme.end:
            yield kind, start, place
        begins = mark == scheme.begin or (mark == scheme.between and own == before)
        if mark == scheme.single or (continues and mark == scheme.end):
            yield own, start if continues else place, place + 1
            kind = ""
        elif not continues:
            start, kind = place, own if begins else ""
        before = own
