"""Input texts for a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plugformer.data.encoding import EncodedExamples, EncodedSplit, TokenColumn
from plugformer.data.processor import SIDES, Processor
from plugformer.errors import DataError, LengthError, PlugformerError
from plugformer.experiment import Experiment
from plugformer.interfaces import UNKNOWN, Example, Level


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
            question: Example = {}
            try:
                text.encode()
                question = task_type.example_from_text(text)
            except UnicodeEncodeError as error:  # Python puts surrogates where bytes were not UTF-8
                faults[row] = DataError(
                    f"{text[:40]!r} is not UTF-8 at character {error.start + 1}; convert it, for example "
                    "with `iconv -f latin1 -t utf-8`"
                )
            except PlugformerError as error:
                faults[row] = error
            questions.append(question)
        sound = next(filter(None, questions), {})
        # In place of a text with a fault there is an empty text, or an empty list.
        examples = [
            {name: question.get(name, type(value)()) for name, value in sound.items()}
            for question in questions
        ]
        columns = {name: [example[name] for example in examples] for name in sound}
        encoded = task_type.encode(columns, processor.tokenizers) if columns else {}
        tokens = {name: TokenColumn.of(rows) for name, rows in encoded.items() if name in SIDES}
        targets = None
        if task_type.level is Level.TOKEN and "targets" in encoded:
            targets = TokenColumn.of(encoded["targets"])
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
        unknown = {}
        every = np.arange(len(texts))
        for name, column in tokens.items():
            read = column.cut(limits[name]).take(every)
            for row in np.unique(np.repeat(every, read.lengths)[read.values == UNKNOWN]).tolist():
                if parts := _unknown(examples[row], processor):
                    unknown[row] = parts
        split = EncodedSplit(
            EncodedExamples(examples, tokens, targets),
            task_type,
            experiment.architecture,
            limits=limits,
            inference=True,
        )
        return cls(
            split,
            faults if truncating else {**too_long, **faults},
            frozenset(too_long if truncating else ()),
            unknown,
        )

    @property
    def answerable(self) -> list[int]:
        """Rows of the texts without a fault."""
        return [row for row in range(len(self.split)) if row not in self.faults]


def _unknown(example: Example, processor: Processor) -> tuple[str, ...]:
    """Returns the parts of an example that the vocabulary cannot spell, each once."""
    parts: dict[str, None] = {}
    for value in example.values():
        for text in [value] if isinstance(value, str) else value:
            for mask_token in processor.task_type.mask_tokens:
                text = text.replace(mask_token, " ")
            parts |= dict.fromkeys(processor.source.unknown(text))
    return tuple(parts)
