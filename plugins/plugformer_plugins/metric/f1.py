"""F1 of labels, of classes, and of entities with the right beginning, end and type."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.errors import DataError
from plugformer.interfaces import OutputMetric, OutputType


class MicroF1(OutputMetric):
    """2 hits / (found + right), over all examples together; 1 where nothing is to be found nor found."""

    @abstractmethod
    def found(self, answer: Sequence[str]) -> set[Any]:
        """Returns the items that an answer consists of."""

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 3"]:
        """Returns the number of hits, of things found, and of right ones."""
        rows = []
        for given, right in zip(predictions, references, strict=True):
            one, other = self.found(given), self.found(right[0])
            rows.append([len(one & other), len(one), len(other)])
        return np.array(rows, float).reshape(-1, 3)

    def aggregate(self, statistics: Float[ndarray, "examples 3"]) -> float:
        """Returns the harmonic mean of precision and recall."""
        hits, found, right = statistics.sum(axis=0)
        return float(2 * hits / (found + right)) if found + right else 1.0


class LabelF1(MicroF1):
    """Precision and recall of the labels of all examples together, in their harmonic mean.

    See https://scikit-learn.org/stable/modules/model_evaluation.html#multiclass-and-multilabel-classification.
    """

    accepts = frozenset({OutputType.LABELS})

    def found(self, answer: Sequence[str]) -> set[str]:
        """Returns the labels."""
        return set(answer)


class MacroF1(OutputMetric):
    """The mean F1 of all classes; rare classes count as much as frequent ones.

    The mean over classes of the harmonic mean of precision and recall.

    Classes are those that occur among predictions or references; one that is never predicted right scores 0.
    It is the average of F-scores, not the F-score of averages; Opitz and Burst (2019) tell the two apart,
    https://arxiv.org/abs/1911.03347.
    """

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns the number of the predicted class and that of the right one."""
        pairs = zip(predictions, references, strict=True)
        right = [name if name in answers else answers[0] for name, answers in pairs]
        numbers = {name: number for number, name in enumerate(sorted({*predictions, *right}))}
        return np.array(
            [[numbers[name] for name in pair] for pair in zip(predictions, right, strict=True)], float
        )

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the mean F1 of the classes that occur: 2 hits / (predicted + right)."""
        predicted, right = statistics.astype(int).T
        classes = int(statistics.max()) + 1
        hits = np.bincount(right[predicted == right], minlength=classes)
        occurrences = np.bincount(predicted, minlength=classes) + np.bincount(right, minlength=classes)
        occurring = occurrences > 0
        return float((2 * hits[occurring] / occurrences[occurring]).mean())


class Scheme(NamedTuple):
    """What tags a scheme writes before a type.

    Attributes:
        begin: At the first word of an entity.
        inside: At others.
        end: At the last of several words; as at others if empty.
        single: At the only word; as at the first if empty.
        between: At the first word, directly after an entity of the same type; as at any first word if empty.
    """

    begin: str
    inside: str
    end: str = ""
    single: str = ""
    between: str = ""


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


class EntityF1(MicroF1):
    """Entities found with the right beginning, end and type, strictly by their scheme.

    The F1 of CoNLL 2003 over entities: https://aclanthology.org/W03-0419, section 2.4.

    Strict: a tag that has no place where it is, such as I-PER after O in IOB2, belongs to no entity; as
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
        begin, inside, end, single, _ = self._scheme
        last, only = end or inside, single or begin
        self.check_examples = (
            ([f"{begin}-PER", f"{last}-PER", "O"], [f"{only}-PER", "O", "O"]),
            (["O", f"{only}-LOC"], ["O", f"{only}-PER"]),
        )

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 3"]:
        """Returns the number of hits, of entities found, and of right ones.

        Raises:
            DataError: A tag, or most of the right ones other than O, follow another scheme.
        """
        answers = [right[0] for right in references]
        inside = sum(end - start for answer in answers for _, start, end in self.found(answer))
        tagged = sum(tag != "O" for answer in answers for tag in answer)
        if 2 * inside < tagged:
            raise self._other_scheme(
                f"of {tagged:,} right tags other than O, {tagged - inside:,} are in no entity"
            )
        return super().statistics(predictions, references)

    def found(self, answer: Sequence[str]) -> set[tuple[str, int, int]]:
        """Returns the type, the first word and the word after the last of each entity.

        Raises:
            DataError: A tag is none of the scheme.
        """
        for tag in answer:
            mark, _, kind = tag.partition("-")
            if tag != "O" and not (mark and mark in self._scheme and kind):
                raise self._other_scheme(f"tag {tag!r} is none")
        return set(_entities(answer, self._scheme))

    def signature(self, references: Sequence[Sequence[Sequence[str]]]) -> str:
        """Returns the scheme."""
        return f"scheme:{self._name}|mode:strict|average:micro"

    def _other_scheme(self, problem: str) -> DataError:
        marks = ", ".join(f"{mark}-TYPE" for mark in dict.fromkeys(filter(None, self._scheme)))
        return DataError(
            f"{problem} of the scheme {self._name}, expected O, {marks}; give entity_f1 the scheme that the "
            f"data follow, of {', '.join(SCHEMES)}, or measure tag_accuracy"
        )


def _entities(tags: Sequence[str], scheme: Scheme) -> Iterator[tuple[str, int, int]]:
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
