"""Small examples of any task type, and a tokenizer and a model for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa
import torch
from datasets import ClassLabel, Dataset

from plugformer.compatibility import reads, serves
from plugformer.data import EncodedSplit, Vocabularies, encode, encoded_examples
from plugformer.errors import RegistryError
from plugformer.interfaces import (
    Architecture,
    Column,
    Examples,
    Model,
    Prediction,
    TaskType,
    Tokenizer,
    evaluating,
)
from plugformer.registry import Kind, Registry
from plugformer_testing.check import Violation, fail
from plugformer_testing.small_models import small_model

LONGEST = 128
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


class SmallTask:
    """A task of any type with small examples, from which it has learned all that comes before a model.

    Attributes:
        task_type: The type.
        examples: The examples, by column.
        known: The type and its tokenizers.

    Args:
        task_type: The type; it learns here.
        examples: The examples by column; the type's own, or such as its columns hold, if None.
        registry: Has the parts of a model; what is installed if None.
    """

    def __init__(
        self, task_type: TaskType, examples: Examples | None = None, registry: Registry | None = None
    ) -> None:
        self.task_type, self._registry = task_type, registry or Registry.discover()
        self.examples = examples_of(task_type) if examples is None else examples
        task_type.state = task_type.learn(_training_data(task_type, self.examples))
        tokenizer: Tokenizer = self._registry.create(Kind.TOKENIZER, "plugformer:characters")
        tokenizer.train(_texts(task_type.columns, self.examples))
        self.known = Vocabularies(tokenizer, tokenizer, task_type)

    def __len__(self) -> int:
        return len(next(iter(self.examples.values())))

    @property
    def questions(self) -> Examples:
        """The examples without what is to be predicted; empty if nothing is given."""
        inputs = [column.name for column in self.task_type.columns if column.role == "input"]
        return {name: self.examples[name] for name in inputs if name in self.examples}

    def encode(
        self, examples: Examples | None = None, task_type: TaskType | None = None
    ) -> dict[str, list[Any]]:
        """Returns numbers as the type encodes them, the rows of each part as lists.

        Args:
            examples: What is encoded; the task's if None.
            task_type: Who encodes them; the task's if None.
        """
        encoded = (task_type or self.task_type).encode(examples or self.examples, self.known.tokenizers)
        if not isinstance(encoded, Mapping):
            fail(f"it encodes a {type(encoded).__name__}, expected lists by name")
        return {
            part: [list(row) if isinstance(row, Sequence) else row for row in rows]
            for part, rows in encoded.items()
        }

    def split(
        self, examples: Examples | None = None, *, packed: bool = False, asking: bool = False
    ) -> EncodedSplit:
        """Returns examples as training, evaluation and prediction see them.

        Args:
            examples: The examples; the task's if None.
            packed: Whether a type that packs its outputs does so.
            asking: Whether they are questions.
        """
        examples = examples or self.examples
        data = Dataset(pa.table({**examples, **encode(examples, self.known)}))
        piece = LONGEST if packed and self.task_type.packed else None
        encoded = encoded_examples(data, self.task_type.level)
        return EncodedSplit(encoded, self.task_type, self.architecture, piece=piece, asking=asking)

    @cached_property
    def architecture(self) -> Architecture:
        """The first installed architecture that can serve the type."""
        level = self.task_type.level
        name = self._installed(
            Kind.ARCHITECTURE,
            lambda each: level in each.levels and reads(self.task_type, each),
            f"its level is {level!r}, which no installed architecture serves",
        )
        found: Architecture = self._registry.create(Kind.ARCHITECTURE, name)
        return found

    def model(self) -> Model:
        """Returns a small model with a head for the type's answers, of the same values each time."""
        head = self._installed(
            Kind.HEAD,
            lambda each: serves(each, self.task_type),
            f"its answers are {self.task_type.output_type!r}, which no installed head predicts",
        )
        level, sizes, registry = self.task_type.level, self.known.sizes, self._registry
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            return small_model(
                self.architecture, level, sizes, head=head, max_length=LONGEST, registry=registry
            )

    def _installed(self, kind: Kind, fits: Callable[[Any], bool], otherwise: str) -> str:
        """Returns the first component of a kind, by name and built-in ones first, that fits.

        Nothing else is imported; what cannot be is passed over.

        Raises:
            Violation: None does.
        """
        entries = self._registry.entries(kind)
        for entry in sorted(entries, key=lambda each: each.distribution != "plugformer"):
            name = f"{entry.distribution}:{entry.name}"
            with suppress(RegistryError):
                if fits(self._registry.load(kind, name)):
                    return name
        raise Violation(otherwise)

    def answers(self, asked: Examples | None = None, *, n_best: int = 1) -> list[Prediction]:
        """Returns the answers of its model to questions, its own if None."""
        split, model = self.split(asked or self.questions, asking=True), self.model()
        with evaluating(model):
            batch = split.batch(range(len(split)))
            return self.task_type.answer(model, batch, self.known.tokenizers, n_best)


def _training_data(task_type: TaskType, examples: Examples) -> Dataset:
    """Returns examples as `learn` is given them: labels are classes."""
    rows = dict(examples)
    features = Dataset.from_dict(rows).features.copy()
    for column in task_type.columns:
        if column.holds == "label" and column.name in rows:
            features[column.name] = ClassLabel(names=sorted(set(rows[column.name])))
    return Dataset.from_dict(rows, features=features)


def _texts(columns: Sequence[Column], examples: Examples) -> Iterator[str]:
    for column in columns:
        if column.tokenizer is not None:
            for value in examples.get(column.name, ()):
                yield from [value] if isinstance(value, str) else value
