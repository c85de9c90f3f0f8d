"""Texts that a trained model is asked to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plugformer.data.columns import SIDES, EncodedExamples, TokenColumn
from plugformer.data.encoding import EncodedSplit
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import DataError, LengthError, PlugformerError
from plugformer.experiment import Experiment
from plugformer.interfaces import UNKNOWN, Example, Examples, Level


@dataclass(frozen=True)
class Inputs:
    """Texts as a model reads them.

    Attributes:
        split: All of them; those with a fault are not to be answered.
        faults: Why a text cannot be answered, by its row.
        truncated: Rows of the texts that were cut.
        unknown: The parts of a text that the vocabulary cannot spell, by its row.
    """

    split: EncodedSplit
    faults: dict[int, PlugformerError]
    truncated: frozenset[int]
    unknown: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, texts: Sequence[str], experiment: Experiment, vocabularies: Vocabularies) -> "Inputs":
        """Encodes texts.

        Too long a text is cut if the task truncates long examples, and is a fault if it drops or refuses
        them.

        Args:
            texts: Inputs.
            experiment: Says how long a text may be, and what is done with longer ones.
            vocabularies: Of the task.
        """
        task, architecture = experiment.task, experiment.architecture
        task_type = vocabularies.task_type
        faults: dict[int, PlugformerError] = {}
        questions: list[Example] = []
        for row, text in enumerate(texts):
            try:
                _require_unicode(text)
                questions.append(task_type.question(text))
            except PlugformerError as error:
                faults[row] = error
                questions.append({})
        sound = next(filter(None, questions), {})
        columns = {  # what cannot be asked stands there as an empty text, or an empty list
            name: [question.get(name, type(value)()) for question in questions]
            for name, value in sound.items()
        }
        encoded = task_type.encode(columns, vocabularies.tokenizers) if columns else {}
        room = architecture.limits(task.model.max_length, task_type.level)
        examples = [{name: values[row] for name, values in columns.items()} for row in range(len(texts))]
        numbers = {name: TokenColumn.of(rows) for name, rows in encoded.items() if name in SIDES}
        labeled = encoded.get("targets") if task_type.level is Level.TOKEN else None
        data = EncodedExamples(examples, numbers, None if labeled is None else TokenColumn.of(labeled))
        tokens = {name: column.lengths for name, column in numbers.items()}
        truncating = task.data.length.over == "truncate"
        limits = {name: getattr(room, name) for name in tokens}
        if truncating:
            limits = {name: min(limit, task.data.length.max or limit) for name, limit in limits.items()}
        long = {
            row: (int(each), limits[name])
            for name, lengths in tokens.items()
            for row, each in enumerate(lengths)
            if each > limits[name]
        }
        if not truncating:
            faults |= {row: _too_long(texts[row], *found) for row, found in long.items() if row not in faults}
        split = EncodedSplit(data, task_type, architecture, limits=limits, asking=True)
        return cls(
            split,
            faults,
            frozenset(long if truncating else ()),
            _unknown(columns, data, limits, vocabularies),
        )

    @property
    def answerable(self) -> list[int]:
        """Rows of the texts without a fault."""
        return [row for row in range(len(self.split)) if row not in self.faults]


def _unknown(
    columns: Examples, data: EncodedExamples, limits: Mapping[str, int], vocabularies: Vocabularies
) -> dict[int, tuple[str, ...]]:
    """Returns the parts of each text that the vocabulary cannot spell, of texts with any."""
    found: dict[int, tuple[str, ...]] = {}
    for name, uncut in data.tokens.items():
        tokens = uncut.cut(limits[name])
        lengths = tokens.lengths
        every = tokens.take(np.arange(len(lengths)))
        rows = np.repeat(np.arange(len(lengths)), every.lengths)
        for row in np.unique(rows[every.values == UNKNOWN]).tolist():
            said = [value for values in columns.values() for value in _strings(values[row])]
            words = (_without(text, vocabularies.task_type.mask_tokens) for text in said)
            parts = (part for text in words for part in vocabularies.source.unknown(text))
            found[row] = tuple(dict.fromkeys(parts))
    return {row: parts for row, parts in found.items() if parts}


def _without(text: str, mask_tokens: Sequence[str]) -> str:
    """Returns a text with a space in place of each mask token."""
    for token in mask_tokens:
        text = text.replace(token, " ")
    return text


def _strings(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _require_unicode(text: str) -> None:
    """Raises DataError for a text with surrogates, which Python puts where bytes were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = text[error.start]
        byte = ord(found) - 0xDC00
        shown = f"byte 0x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(found)
        beginning = text[:40].encode(errors="replace").decode()
        raise DataError(
            f"{beginning!r} is not UTF-8: {shown} at character {error.start + 1}; convert it, for example "
            "with `iconv -f latin1 -t utf-8`"
        ) from None


def _too_long(text: str, tokens: int, limit: int) -> LengthError:
    return LengthError(
        f"{text[:40]!r}... has {tokens} tokens, the model takes at most {limit}; shorten the text, or train "
        "with a larger model.max_length or with data.length.over=truncate"
    )
