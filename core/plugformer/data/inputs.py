"""Input texts for a trained model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plugformer.data.encoding import EncodedExamples, EncodedSplit, TokenColumn
from plugformer.data.processor import SIDES, Processor
from plugformer.errors import DataError, LengthError, PlugformerError
from plugformer.experiment import Experiment
from plugformer.interfaces import UNKNOWN, Example, Examples, Level


@dataclass(frozen=True)
class Inputs:
    """Encoded input texts.

    Attributes:
        split: All texts, also those with a fault.
        faults: By row, why a text cannot be answered.
        truncated: Rows of the texts that were cut.
        unknown: By row, the parts of a text that the vocabulary cannot spell.
    """

    split: EncodedSplit
    faults: dict[int, PlugformerError]
    truncated: frozenset[int]
    unknown: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, texts: Sequence[str], experiment: Experiment, processor: Processor) -> "Inputs":
        """Encodes texts; one that is too long is cut if the task truncates examples, or else has a fault."""
        task, task_type = experiment.task, processor.task_type
        faults: dict[int, PlugformerError] = {}
        questions: list[Example] = []
        for row, text in enumerate(texts):
            try:
                _require_unicode(text)
                questions.append(task_type.example_from_text(text))
            except PlugformerError as error:
                faults[row] = error
                questions.append({})
        sound = next(filter(None, questions), {})
        columns = {  # a text with a fault is replaced by an empty text, or an empty list
            name: [question.get(name, type(value)()) for question in questions]
            for name, value in sound.items()
        }
        encoded = task_type.encode(columns, processor.tokenizers) if columns else {}
        examples = [{name: values[row] for name, values in columns.items()} for row in range(len(texts))]
        tokens = {name: TokenColumn.of(rows) for name, rows in encoded.items() if name in SIDES}
        targets = encoded.get("targets") if task_type.level is Level.TOKEN else None
        data = EncodedExamples(examples, tokens, None if targets is None else TokenColumn.of(targets))
        room = experiment.architecture.limits(task.model.max_length, task_type.level)
        limits = {name: getattr(room, name) for name in tokens}
        truncating = task.data.length.over == "truncate"
        if truncating:
            limits = {name: min(limit, task.data.length.max or limit) for name, limit in limits.items()}
        too_long = {
            row: LengthError(
                f"{texts[row][:40]!r}... has {length} tokens, the model takes at most {limits[name]}; "
                "shorten the text, or train with a larger model.max_length or with data.length.over=truncate"
            )
            for name, column in tokens.items()
            for row, length in enumerate(column.lengths)
            if length > limits[name]
        }
        split = EncodedSplit(data, task_type, experiment.architecture, limits=limits, inference=True)
        return cls(
            split,
            faults if truncating else {**too_long, **faults},
            frozenset(too_long if truncating else ()),
            _unknown(columns, data, limits, processor),
        )

    @property
    def answerable(self) -> list[int]:
        """Rows of the texts without a fault."""
        return [row for row in range(len(self.split)) if row not in self.faults]


def _unknown(
    columns: Examples, data: EncodedExamples, limits: Mapping[str, int], processor: Processor
) -> dict[int, tuple[str, ...]]:
    """Returns the parts of each text that the vocabulary cannot spell, for texts with such parts."""
    unknown: dict[int, tuple[str, ...]] = {}
    for name, uncut in data.tokens.items():
        lengths = uncut.cut(limits[name]).lengths
        tokens = uncut.cut(limits[name]).take(np.arange(len(lengths)))
        rows = np.repeat(np.arange(len(lengths)), tokens.lengths)
        for row in np.unique(rows[tokens.values == UNKNOWN]).tolist():
            parts: dict[str, None] = {}
            for values in columns.values():
                for text in [values[row]] if isinstance(values[row], str) else values[row]:
                    for mask_token in processor.task_type.mask_tokens:
                        text = text.replace(mask_token, " ")
                    parts |= dict.fromkeys(processor.source.unknown(text))
            if parts:
                unknown[row] = tuple(parts)
    return unknown


def _require_unicode(text: str) -> None:
    """Raises DataError for a text with surrogates, which Python puts where bytes were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        shown = f"byte 0x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(text[error.start])
        beginning = text[:40].encode(errors="replace").decode()
        raise DataError(
            f"{beginning!r} is not UTF-8: {shown} at character {error.start + 1}; convert it, for example "
            "with `iconv -f latin1 -t utf-8`"
        ) from None
