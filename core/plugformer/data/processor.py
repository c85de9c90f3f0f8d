"""Tokenizers and the task's type, which turn examples into numbers, and input texts for a trained model."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plugformer.data.encoding import EncodedSplit, encoded_rows, refuse_weights
from plugformer.data.files import files_version
from plugformer.errors import DataError, ExampleError, LengthError, PlugformerError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    UNKNOWN,
    Column,
    Encoded,
    Example,
    Examples,
    Level,
    OutputType,
    Ragged,
    TaskType,
    Tokenizer,
    Tokenizers,
    as_text,
)
from plugformer.interfaces.spec import Limits, Sizes
from plugformer.registry import Kind


@dataclass(frozen=True)
class Processor:
    """Turns text into numbers and back; learned from the training examples before a model is built.

    `target` is the same object as `source` if both sides share it, or if there is no output.
    """

    source: Tokenizer
    target: Tokenizer
    task_type: TaskType

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        return Tokenizers(self.source, self.target)

    @property
    def by_side(self) -> dict[str, Tokenizer]:
        """The tokenizers by the side that names their file; `shared` if it is one."""
        return {"shared": self.source} if self.source is self.target else self.tokenizers._asdict()

    def save(self, folder: Path) -> dict[str, str]:
        """Saves the tokenizers in a folder and returns a hash of each file by its side."""
        for side, tokenizer in self.by_side.items():
            tokenizer.save(_file(folder, side))
        return {side: files_version([_file(folder, side)]) for side in self.by_side}

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, in order; None where answers are no labels."""
        return list(self.task_type.state) if self.task_type.output_type is OutputType.LABEL else None

    @property
    def sizes(self) -> Sizes:
        """The sizes that a model is built with."""
        outputs = self.task_type.outputs
        return Sizes(source=self.source.size, outputs=self.target.size if outputs is None else outputs)

    def encode(self, examples: Examples, tokenizers: Tokenizers | None = None) -> Mapping[str, Sequence[Any]]:
        """Returns the numbers of examples, as the task type encodes them, with other tokenizers if given.

        The task type receives all optional inputs, None where examples lack them.

        Raises:
            RegistryError: It returns something unknown.
        """
        count = len(next(iter(examples.values())))
        optional = (each for each in self.task_type.columns if each.optional and each.role == "input")
        missing = {each.name: [None] * count for each in optional if each.name not in examples}
        found = self.task_type.encode({**examples, **missing}, tokenizers or self.tokenizers)
        known = [*(each.name for each in self.task_type.inputs), "output", "targets", "weights"]
        if unknown := sorted(found.keys() - known):
            name = type(self.task_type).__name__
            raise RegistryError(f"{name}: `encode` returns {unknown[0]!r}; known: {', '.join(known)}")
        return found

    def encode_examples(self, examples: Examples, place: Callable[[int], str]) -> Encoded:
        """Returns the numbers of examples for training or evaluation.

        Raises:
            DataError: An example cannot be encoded, or a target or a weight is missing, not finite or
                negative; `place` names its row.
            RegistryError: The task type returns numbers of more or fewer examples.
        """
        count = len(next(iter(examples.values())))
        try:
            found = self.encode(examples)
            for name, rows in found.items():
                if len(rows) != count:
                    encodes = f"{type(self.task_type).__name__}: `encode` returns {len(rows)} {name}"
                    raise RegistryError(f"{encodes} for {count} examples; return one for each")
            encoded = encoded_rows(found, self.task_type)
            refuse_incomplete(encoded)
        except ExampleError as error:
            raise DataError(f"{place(error.row)}: {error}") from error
        return encoded


def refuse_incomplete(encoded: Encoded) -> None:
    """Raises ExampleError for an input that has no rows, or a target or a weight that is none."""
    for name, part in encoded.inputs.items():
        if part.counts is not None and not part.counts.all():
            raise ExampleError(int(part.counts.argmin()), f"it has no {name}; give at least one")
    if isinstance(targets := encoded.targets, np.ndarray):
        finite = np.isfinite(targets.astype(float))  # None becomes NaN
        if not finite.all():
            row = int(np.indices(finite.shape)[0][~finite][0])
            raise ExampleError(row, f"its target is {targets.tolist()[row]}, expected a finite number")
    if encoded.weights is not None:
        refuse_weights(encoded.weights)


def require_aligned(values: Mapping[str, Any], columns: Sequence[Column], place: str) -> None:
    """Raises DataError if a list has another number of items than the one that its column is along.

    Args:
        values: Those of an example or a question, by column.
        columns: Columns of the task type.
        place: What an error begins with, such as `file:line`.
    """
    for column in columns:
        items, along = values.get(column.name), values.get(column.along or "")
        if items is not None and along is not None and len(items) != len(along):
            raise DataError(
                f"{place}: {len(along)} {column.along} and {len(items)} {column.name}; expected one of the "
                f"{column.name} for each of the {column.along}"
            )


def sample_subwords(
    encoded: Encoded,
    examples: Sequence[Example],
    generators: Sequence[np.random.Generator],
    *,
    processor: Processor,
    limits: Limits,
    truncate: bool,
) -> Encoded:
    """Encodes `examples` again with tokenizers that cut texts at random, each with its generator.

    What becomes longer than the limits is cut, or, without `truncate`, stays as it is in `encoded`.
    """
    task_type, level = processor.task_type, processor.task_type.level
    by_token = {"targets": level is Level.TOKEN, "weights": isinstance(encoded.weights, Ragged)}
    names = [*encoded.parts, *(name for name, listed in by_token.items() if listed)]

    def limit(name: str) -> int:
        ends = name == "weights" and level is Level.NEXT_TOKEN
        return limits.of("output") + 1 if ends else limits.of(name)

    many = [item.name for item in task_type.inputs if item.many]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row, (example, generator) in enumerate(zip(examples, generators, strict=True)):
        tokenizers = Tokenizers(*(tokenizer.sampling(generator) for tokenizer in processor.tokenizers))
        found = processor.encode({name: [value] for name, value in example.items()}, tokenizers)
        drawn = {name: [*found[name][0]] if name in many else [found[name][0]] for name in names}
        if truncate:
            drawn = {name: [tokens[: limit(name)] for tokens in rows] for name, rows in drawn.items()}
        longest = {name: max(map(len, rows)) for name, rows in drawn.items()}
        sides = [length for name, length in longest.items() if name not in by_token]
        fits = all(length <= limit(name) for name, length in longest.items())
        if not fits or (len(sides) > 1 and sum(sides) > limits.together):
            old = encoded.take(np.array([row]))
            drawn = {name: part.rows() for name, part in old.parts.items()}
            listed = {"targets": old.targets, "weights": old.weights}
            drawn |= {name: part.rows() for name, part in listed.items() if isinstance(part, Ragged)}
        for name in names:
            columns[name].append(drawn[name] if name in many else drawn[name][0])
    again = encoded_rows(columns, task_type)
    kept = {name: getattr(again if listed else encoded, name) for name, listed in by_token.items()}
    return replace(encoded, inputs=again.inputs, output=again.output, **kept)


def create_processor(experiment: Experiment, folder: Path | None = None) -> Processor:
    """Returns the task's type with tokenizers that are not trained, or loaded from a folder.

    The file of `shared` serves a side that has none, and that of `source` both.
    """
    blocks, registry = experiment.task.tokenizer, experiment.registry
    source: Tokenizer = registry.create(Kind.TOKENIZER, blocks.source.name, **blocks.source.options)
    target = source
    if not blocks.shared and any(column.tokenizer == "target" for column in experiment.task_type.columns):
        target = registry.create(Kind.TOKENIZER, blocks.target.name, **blocks.target.options)
    processor = Processor(source, target, experiment.task_type)
    if folder is not None:
        for side, tokenizer in processor.by_side.items():
            file, other = _file(folder, side), _file(folder, "source" if side == "shared" else "shared")
            tokenizer.load(other if other.exists() and not file.exists() else file)
    return processor


def _file(folder: Path, side: str) -> Path:
    return folder / f"tokenizer-{side}.json"


def load_processor(experiment: Experiment, folder: Path, learned: object) -> Processor:
    """Returns the processor with the tokenizers in a folder; the experiment's task type gets its state."""
    experiment.task_type.state = learned
    return create_processor(experiment, folder)


def iterate_rows(rows: Any, expected: str) -> Iterator[Any]:
    """Yields rows; dictionaries, and those of a pandas data frame, with plain Python values.

    Args:
        rows: A data frame, or anything iterable but a single text, path or dictionary.
        expected: What an error says was expected.

    Raises:
        DataError: They are something else, or several columns have the same name.
    """
    if hasattr(rows, "itertuples"):  # a data frame of pandas
        names = list(rows.columns)
        if len(twice := rows.columns[rows.columns.duplicated()]):
            raise DataError(f"several columns are called {twice[0]!r}; rename all but one")
        rows = (dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None))
    if isinstance(rows, str | Path | Mapping) or not isinstance(rows, Iterable):
        raise DataError(f"found {str(rows)[:40]!r}, expected {expected}")
    for row in rows:
        yield {name: _python(value) for name, value in row.items()} if isinstance(row, Mapping) else row


def _python(value: Any) -> Any:
    """Returns a scalar or an array of NumPy as a number or a list, and a missing value of pandas as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


@dataclass(frozen=True)
class Inputs:
    """Encoded input texts.

    Attributes:
        faults: By row, why a text, which is in `split` all the same, cannot be answered.
        truncated: Rows of the texts that were cut.
        unknown: By row, the parts of a text that the vocabulary cannot spell.
    """

    split: EncodedSplit
    faults: dict[int, PlugformerError]
    truncated: frozenset[int]
    unknown: dict[int, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        texts: Iterable[str | Example],
        experiment: Experiment,
        processor: Processor,
        needed: Collection[str] | None = None,
    ) -> "Inputs":
        """Encodes texts or examples; one that is too long is cut if the task truncates, or has a fault.

        One without a needed column has a fault, too; by default all inputs that are not optional are needed.
        """
        texts = list(iterate_rows(texts, "a list of texts or examples"))
        if needed is None:
            inputs = (column for column in experiment.columns if column.role == "input")
            needed = {column.name for column in inputs if not column.optional}
        faults: dict[int, PlugformerError] = {}
        questions: list[Example] = []
        for row, text in enumerate(texts):
            try:
                questions.append(_question(text, experiment, needed))
            except PlugformerError as error:
                faults[row] = error
                questions.append({})
        while True:
            examples = _completed(questions, experiment)
            columns = {name: [each[name] for each in examples] for name in examples[0]} if examples else {}
            try:
                encoded = encoded_rows(processor.encode(columns) if columns else {}, processor.task_type)
                break
            except ExampleError as error:
                if error.row in faults:  # also without its question
                    raise
                faults[error.row] = DataError(f"text {error.row + 1}: {error}")
                questions[error.row] = {}
        for name, part in encoded.inputs.items():
            for row in () if part.counts is None else np.flatnonzero(part.counts == 0).tolist():
                faults.setdefault(row, DataError(f"text {row + 1} has no {name}; give one at least"))
        settings, architecture = experiment.task.data.length, experiment.architecture
        room = architecture.limits(experiment.task.model.max_length, processor.task_type.level)
        limits = {name: room.of(name) for name in encoded.parts}
        if truncating := settings.over == "truncate":
            limits = {name: min(limit, settings.max or limit) for name, limit in limits.items()}
        too_long: dict[int, PlugformerError] = {
            row: LengthError(
                f"{str(texts[row])[:40]!r}... has {length} tokens, the model takes at most {limits[name]}; "
                "shorten the text, or train with a larger model.max_length or with data.length.over=truncate"
            )
            for name, part in encoded.parts.items()
            for row, length in enumerate(part.longest)
            if length > limits[name]
        }
        every = np.arange(len(texts))
        unknown = {}
        spelled = not any(np.any(part.values == UNKNOWN) for part in encoded.parts.values())
        for part in () if spelled else encoded.take(every, limits).parts.values():
            owners = np.repeat(every, 1 if part.counts is None else part.counts)
            for row in np.unique(np.repeat(owners, part.lengths)[part.values == UNKNOWN]).tolist():
                if missing := _unknown(examples[row], processor):
                    unknown[row] = missing
        split = EncodedSplit(
            examples, encoded, processor.task_type, architecture, limits=limits, inference=True
        )
        if truncating:
            return cls(split, faults, frozenset(too_long), unknown)
        return cls(split, {**too_long, **faults}, frozenset(), unknown)

    @property
    def answerable(self) -> list[int]:
        """Rows of the texts without a fault."""
        return [row for row in range(len(self.split)) if row not in self.faults]


def _question(text: str | Example, experiment: Experiment, needed: Collection[str]) -> Example:
    """Returns the values of a text, or of an example, by column.

    Raises:
        DataError: It is not UTF-8, lacks a column or has a value that no column can have.
    """
    kinds = {column.name: column.kind for column in experiment.columns}
    beginning = repr(str(text)[:40])
    try:
        str(text).encode()
        given = experiment.task_type.example_from_text(text) if isinstance(text, str) else text
        if not isinstance(given, Mapping):
            raise DataError(f"{beginning} is neither a text nor values by column")
        if not set(needed) <= given.keys() <= kinds.keys():
            found = ", ".join(given) or "nothing"
            raise DataError(f"found {found}, expected {', '.join(sorted(needed or kinds))}")
        values = {name: kinds[name].read(value) for name, value in given.items()}
    except UnicodeEncodeError as error:  # Python puts surrogates where bytes were not UTF-8
        raise DataError(
            f"{beginning} is not UTF-8 at character {error.start + 1}; convert it, for example with "
            "`iconv -f latin1 -t utf-8`"
        ) from error
    except ValueError as error:
        raise DataError(f"{beginning}: it {error}") from error
    require_aligned(values, experiment.columns, repr(as_text(text)[:40]))
    return values


def _completed(questions: Sequence[Example], experiment: Experiment) -> list[Example]:
    """Returns questions with the columns of all; one with a fault has an empty text or list in each."""
    sound = {name: value for question in questions for name, value in question.items()}
    optional = {column.name for column in experiment.columns if column.optional}
    empty = {name: None if name in optional else type(value)() for name, value in sound.items()}
    return [{**empty, **question} for question in questions]


def _unknown(example: Example, processor: Processor) -> tuple[str, ...]:
    """Returns the parts of an example that the vocabulary cannot spell, each once."""
    parts: dict[str, None] = {}
    masks = "|".join(map(re.escape, processor.task_type.mask_tokens))
    for value in example.values():
        items = value if isinstance(value, list) else [value]
        for text in (item for item in items if isinstance(item, str)):
            for piece in re.split(masks, text) if masks else [text]:
                parts |= dict.fromkeys(processor.source.unknown(piece))
    return tuple(parts)
