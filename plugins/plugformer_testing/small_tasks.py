"""Small examples of any task type, and a tokenizer and a model for them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as ListOf

from plugformer.data import EncodedSplit, Vocabularies, encode
from plugformer.interfaces import (
    SPECIAL_TOKENS,
    UNKNOWN,
    Answer,
    Architecture,
    Column,
    Examples,
    Head,
    Level,
    Model,
    TaskType,
    Tokenizer,
)
from plugformer.model import reads
from plugformer.registry import Kind, Registry, State
from plugformer_testing.check import fail
from plugformer_testing.small_models import small_model

LONGEST = 64
"""Positions of a model."""

_SENTENCES = (
    "the quick brown fox jumps over the lazy dog",
    "it rains",
    "nobody has seen the red house",
    "a cat sat on the mat and slept",
    "rain",
    "new houses are seldom red",
)
_NAMES = ("blue", "green", "red")


class Pieces(Tokenizer):
    """Knows spaces and pieces of words of at most three characters, the ones that it was trained on.

    Args:
        texts: What it is trained on.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.train(texts)

    def train(self, texts: Iterable[str]) -> None:
        """Learns the pieces, in sorted order."""
        found = {piece for text in texts for piece in _cut(text)}
        self._pieces = [*SPECIAL_TOKENS, *sorted(found)]
        self._numbers = {piece: number for number, piece in enumerate(self._pieces)}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the numbers of pieces."""
        return [[self._numbers.get(piece, UNKNOWN) for piece in _cut(text)] for text in texts]

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns the pieces joined."""
        return ["".join(self.tokens(row)) for row in rows]

    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns the pieces."""
        ordinary = len(SPECIAL_TOKENS)
        return [
            self._pieces[number] if number >= ordinary else "<unk>" * (number == UNKNOWN) for number in row
        ]

    @property
    def size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    def save(self, file: Path) -> None:
        """Does nothing: it is made anew."""

    def load(self, file: Path) -> None:
        """Does nothing."""


def _cut(text: str) -> list[str]:
    return re.findall(r"\s|\S{1,3}", text)


def examples_of(task_type: TaskType) -> dict[str, list[Any]]:
    """Returns examples by column: the type's own, or such as its columns hold."""
    if task_type.check_examples:
        names = list(task_type.check_examples[0])
        return {name: [example[name] for example in task_type.check_examples] for name in names}
    found: dict[str, list[Any]] = {}
    for number, column in enumerate(task_type.columns):
        if column.optional:
            continue
        along = found.get(column.along or "")
        make = _MAKE[column.holds]
        found[column.name] = [
            [_NAMES[len(word) % 3] for word in along[row]] if along else make(row, number)
            for row in range(len(_SENTENCES))
        ]
    return found


def _text(row: int, column: int) -> str:
    return _SENTENCES[(row + 2 * column) % len(_SENTENCES)]


_MAKE: dict[str, Callable[[int, int], Any]] = {
    "text": _text,
    "texts": lambda row, column: [_text(row, column), _text(row + 1, column)],
    "words": lambda row, column: _text(row, column).split(),
    "label": lambda row, column: _NAMES[row % 3],  # noqa: ARG005
    "labels": lambda row, column: list(islice(_NAMES, row % 4)),  # noqa: ARG005
    "tags": lambda row, column: [_NAMES[row % 3]],  # noqa: ARG005
    "number": lambda row, column: 1.5 * row - 2,  # noqa: ARG005
}


def training_data(task_type: TaskType, examples: Examples) -> Dataset:
    """Returns examples as `learn` is given them: labels are classes."""
    holds = {column.name: column.holds for column in task_type.columns}
    features: dict[str, Any] = {}
    rows: dict[str, list[Any]] = {}
    for name, values in examples.items():
        rows[name] = list(values)
        if holds[name] == "label":
            names = sorted(set(values))
            features[name] = ClassLabel(names=names)
            rows[name] = [names.index(value) for value in values]
        elif holds[name] in ("text", "number"):
            features[name] = Value("string" if holds[name] == "text" else "float64")
        else:
            features[name] = ListOf(Value("string"))
    return Dataset.from_dict(rows, features=Features(features))


def vocabularies_of(task_type: TaskType, examples: Examples) -> Vocabularies:
    """Returns what is learned of examples; the task's type has learned already."""
    sides = {"source": list(_texts(task_type.columns, examples, "source"))}
    sides["target"] = list(_texts(task_type.columns, examples, "target"))
    source = Pieces([*sides["source"], *sides["target"]])
    return Vocabularies(source, source, task_type)


def _texts(columns: Sequence[Column], examples: Examples, side: str) -> Iterator[str]:
    for column in columns:
        if column.tokenizer == side:
            for value in examples.get(column.name, ()):
                yield from [value] if isinstance(value, str) else value


def split_of(
    vocabularies: Vocabularies, examples: Examples, *, packed: bool = False, asking: bool = False
) -> EncodedSplit:
    """Returns examples as training, evaluation and prediction see them.

    Args:
        vocabularies: Of the task.
        examples: By column.
        packed: Whether a type that packs its outputs does so.
        asking: Whether they are questions.
    """
    task_type = vocabularies.task_type
    data = Dataset(pa.table({**examples, **encode(examples, vocabularies)}))
    piece = LONGEST if packed and task_type.packed else None
    return EncodedSplit(data, task_type, architecture_of(task_type), piece=piece, asking=asking)


def architecture_of(task_type: TaskType) -> Architecture:
    """Returns the first installed architecture, by name, that can serve a task type."""
    registry = Registry.discover()
    classes: Iterator[type[Architecture]] = (
        registry.load(Kind.ARCHITECTURE, name) for name in _sound(registry, Kind.ARCHITECTURE)
    )
    fitting = (each for each in classes if task_type.level in each.levels and reads(task_type, each))
    found = next(fitting, None)
    if found is None:
        fail(f"its level is {task_type.level!r}, which no installed architecture serves")
    return found()


def _sound(registry: Registry, kind: Kind) -> list[str]:
    """Returns the components of a kind that can be used, sorted by name."""
    entries = sorted(registry.entries(kind), key=lambda each: each.name)
    return [f"{entry.distribution}:{entry.name}" for entry in entries if entry.state is not State.QUARANTINED]


def _installed_head(task_type: TaskType, registry: Registry) -> str:
    """Returns the first installed head, by name, that predicts a task type's answers."""

    def predicts(name: str) -> bool:
        head: type[Head] = registry.load(Kind.HEAD, name)
        return task_type.level in head.levels and task_type.answer_type in head.answer_types

    found = next(filter(predicts, _sound(registry, Kind.HEAD)), None)
    if found is None:
        fail(f"its answers are {task_type.answer_type!r}, which no installed head predicts")
    return found


def model_of(vocabularies: Vocabularies, targets: Any, registry: Registry | None = None) -> Model:
    """Returns a small model for a task type, with a head for targets such as it has encoded.

    The head is a built-in one if the answers are of a kind that these know, else one of the registry's.
    """
    task_type, registry = vocabularies.task_type, registry or Registry.discover()
    head = "" if task_type.answer_type in set(Answer) else _installed_head(task_type, registry)
    if not head and task_type.level is Level.SEQUENCE and np.asarray(targets).dtype.kind == "f":
        head = "multi_label" if np.asarray(targets).ndim > 1 else "regressor"
    return small_model(
        architecture_of(task_type),
        task_type.level,
        vocabularies.sizes,
        head=head,
        max_length=LONGEST,
        registry=registry,
    )
