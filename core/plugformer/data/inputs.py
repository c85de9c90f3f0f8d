"""What a trained model is asked beside its task's examples: texts to answer, and files to be measured on."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from plugformer.configuration.task import Task
from plugformer.creation import create_architecture
from plugformer.data.arrow import ENCODED, mapped
from plugformer.data.encoding import EncodedSplit, Request, token_columns
from plugformer.data.length import limited
from plugformer.data.preparation import quiet
from plugformer.data.read_count import ReadCount
from plugformer.data.splitting import refuse_other_order
from plugformer.data.vocabularies import Vocabularies, encode, encode_to_file
from plugformer.errors import ConfigurationError, DataError, LengthError, PlugformerError
from plugformer.explanations import keys_of
from plugformer.interfaces import UNKNOWN, Architecture, Example, Examples
from plugformer.interfaces.data import Data
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.registry.options import options_model

_OPTION = "files"

_CLASSES = "labels"
"""The option that names the classes; a component with another one takes them from the training files."""

_SPLIT = "test_files"
"""What files are read as. Off training files a component may cut other splits, and call one `test`."""


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
    def of(
        cls, texts: Sequence[str], vocabularies: Vocabularies, task: Task, architecture: Architecture
    ) -> "Inputs":
        """Encodes texts.

        Too long a text is cut if the task truncates long examples, and is a fault if it drops or refuses
        them.

        Args:
            texts: Inputs.
            vocabularies: Of the task.
            task: Says how long a text may be, and what is done with longer ones.
            architecture: Arranges them.
        """
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
        encoded = encode(columns, vocabularies) if columns else {}
        room = architecture.limits(task.model.max_length, task_type.level)
        examples = [{name: values[row] for name, values in columns.items()} for row in range(len(texts))]
        numbers = {name.removeprefix(ENCODED): pa.chunked_array([each]) for name, each in encoded.items()}
        data = Request(examples, numbers)
        tokens = {name: column.lengths for name, column in token_columns(data, {}).items()}
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
    columns: Examples, data: Request, limits: Mapping[str, int], vocabularies: Vocabularies
) -> dict[int, tuple[str, ...]]:
    """Returns the parts of each text that the vocabulary cannot spell, of texts with any."""
    found: dict[int, tuple[str, ...]] = {}
    for tokens in token_columns(data, limits).values():
        lengths = tokens.lengths
        every = tokens.take(np.arange(len(lengths)))
        rows = np.repeat(np.arange(len(lengths)), every.lengths)
        for row in np.unique(rows[every.values == UNKNOWN]).tolist():
            said = [value for values in columns.values() for value in _strings(values[row])]
            words = (_without(text, vocabularies.task_type.marks) for text in said)
            parts = (part for text in words for part in vocabularies.source.unknown(text))
            found[row] = tuple(dict.fromkeys(parts))
    return {row: parts for row, parts in found.items() if parts}


def _without(text: str, marks: Sequence[str]) -> str:
    """Returns a text with a space in place of each mark."""
    for mark in marks:
        text = text.replace(mark, " ")
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


def read_files(
    files: Sequence[Path], task: Task, registry: Registry, vocabularies: Vocabularies
) -> tuple[EncodedSplit, ReadCount, Sequence[str]]:
    """Reads examples with a task's data component, as its options say, from other files.

    Args:
        files: One, or two parallel ones, or several that follow one another.
        task: Fully resolved.
        registry: Knows the data component.
        vocabularies: What the model knows.

    Returns:
        The examples, what the task's length limit did to them, and what the component says about them.

    Raises:
        ConfigurationError: The data component reads no files, or not these.
        DataError: A file is malformed, has a label that is no class, or an example that is too long and the
            task refuses it.
    """
    task_type, name = vocabularies.task_type, ", ".join(map(str, files))
    part = _SPLIT if vocabularies.classes is None or _CLASSES in task.data.options else "train"
    options = _with_files(files, part, task, registry)
    if _CLASSES in options and options[_CLASSES] is None:
        options[_CLASSES] = vocabularies.classes
    data: Data = registry.create(Kind.DATA, task.data.name, **options)
    with quiet():
        examples = data.load(task_type.columns)[part]
        refuse_other_order(examples.features, task_type.columns, vocabularies.classes)
        if len(examples) == 0:
            raise DataError(f"{name}: no examples; check the file")

        def place(row: int) -> str:
            return f"{name}, example {row + 1}"

        encoded = mapped(lambda file: encode_to_file(file, examples, vocabularies, place))
    split, count = limited(encoded, task, vocabularies, create_architecture(task, registry), place)
    if len(split) == 0:
        raise DataError(f"{name}: all examples are longer than the limit of the run's task")
    return split, count, data.notices()


def _with_files(files: Sequence[Path], split: str, task: Task, registry: Registry) -> dict[str, Any]:
    """Returns the options of a task's data with other files, as one split, in place of its own."""
    name = task.data.name
    model = options_model(registry.load(Kind.DATA, name))
    if _OPTION not in keys_of(model):
        raise ConfigurationError(
            f"data {name!r} has no option {_OPTION!r}, so that it cannot read others; "
            "change its own options with --set data.OPTION=VALUE"
        )
    paths = [str(file.absolute()) for file in files]
    forms: list[object] = [paths[0]] if len(paths) == 1 else [paths]
    if len(paths) == 2:
        forms = [dict(zip(("source", "target"), paths, strict=True)), *forms]
    for form in forms:
        options = {**task.data.options, _OPTION: {split: form}}
        with suppress(ValidationError):
            model.model_validate(options)
            return options
    raise ConfigurationError(
        f"data {name!r} cannot read {len(paths)} file{'s' * (len(paths) > 1)} as a split: "
        f"{', '.join(map(str, files))}; parallel files are two, source before target"
    )
