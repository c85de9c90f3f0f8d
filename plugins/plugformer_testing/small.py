"""Small models and tasks: models of built-in parts, encoded examples, and examples of any task type."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import ClassLabel, Dataset
from numpy import ndarray
from torch import Tensor, nn

from plugformer.configuration.overrides import read_dictionary
from plugformer.configuration.task import ModelSettings
from plugformer.data import EncodedSplit, Processor
from plugformer.data.arrow import columns_of, encoded_examples
from plugformer.data.encoding import encoded_rows
from plugformer.data.processor import sample_subwords
from plugformer.errors import ConfigurationError
from plugformer.experiment import model_spec
from plugformer.interfaces import (
    Architecture,
    Column,
    Encoded,
    Examples,
    Head,
    HeadContext,
    HeadInput,
    Input,
    Level,
    Model,
    Prediction,
    Ragged,
    TaskType,
    Tokenizer,
    View,
    evaluating,
)
from plugformer.model import Limits, Sizes, build
from plugformer.registry import Kind, Registry
from plugformer.validation import fitting, reads, serves
from plugformer_testing import require
from plugformer_testing.probes import perturbed
from plugformer_testing.subject import MODEL, OUTPUTS

VOCABULARY = 13
MAX_LENGTH = MODEL.max_length
_SETTINGS = {"layers": 2, **{name: value for name, value in vars(MODEL).items() if name != "place"}}


def small_model(
    architecture: Architecture,
    level: Level,
    sizes: Sizes,
    *,
    inputs: tuple[Input, ...] = (Input(),),
    view: Callable[[View], View] = lambda view: view,
    registry: Registry | None = None,
    **settings: Any,
) -> Model:
    """Returns a model in double precision and evaluation mode, its parameters perturbed.

    It has few layers of the parts that a task has by default; `settings` are other values of `model` there.
    """
    written = {"architecture": "-", "head": _HEADS[level], **_SETTINGS, **settings}
    tree, registry = read_dictionary(written, "model", registry or Registry.discover())
    spec = model_spec(ModelSettings.model_validate(tree.value), registry, architecture, level, inputs=inputs)
    stacks = {name: replace(stack, view=view(stack.view)) for name, stack in spec.stacks.items()}
    return perturbed(build(replace(spec, stacks=stacks), sizes))


class _RowScores(Head):
    """A score for each vector, and its squared distance from the target of the example."""

    levels = frozenset({Level.VECTOR})

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        self.score = nn.Linear(model.width, 1)

    def logits(self, hidden: Tensor, context: HeadInput) -> Tensor:
        scores: Tensor = self.score(hidden)[..., 0]
        return scores.masked_fill(~context.real, 0.0)

    def loss(self, hidden: Tensor, targets: Tensor, context: HeadInput) -> tuple[Tensor, Tensor]:
        errors = (self.logits(hidden, context) - targets[:, None]).masked_fill(~context.real, 0.0)
        return errors.square().sum(), targets.new_tensor(len(targets))


_HEADS: Mapping[Level, str | type[Head]] = {
    Level.NEXT_TOKEN: "language_model",
    Level.TOKEN: "token_classifier",
    Level.SEQUENCE: "classifier",
    Level.VECTOR: _RowScores,
}


@dataclass(frozen=True)
class EncodedCase:
    """Examples by the lengths of their inputs and outputs, if any; packed ones are pieces without END.

    `second` has the lengths of another input, which questions may lack, and `rows` those of the rows of one
    that has many.
    """

    level: Level
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    packed: bool = False
    second: tuple[int, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.inputs or self.outputs)

    def encoded(self) -> Encoded:
        """Returns the examples: the same tokens each time, different in every example."""
        targets: Ragged | ndarray | None = None
        if self.level in (Level.SEQUENCE, Level.VECTOR):
            targets = np.arange(len(self)) * 3 % OUTPUTS
        elif self.level is Level.TOKEN:
            rows = [
                [None if place % 3 == 1 else (place + row) % OUTPUTS for place in range(length)]
                for row, length in enumerate(self.inputs)
            ]
            targets = Ragged.of(rows)
        inputs = {"input": ragged(self.inputs, 1), "second": ragged(self.second, 3)}
        counts = np.array([len(lengths) for lengths in self.rows], dtype=np.int64)
        inputs["rows"] = replace(ragged([*chain(*self.rows)], 4), counts=counts)
        return Encoded(
            {part.name: inputs[part.name] for part in self.reads},
            ragged(self.outputs, 2) if self.outputs else None,
            targets,
            Ragged.of([[5 + row] for row in range(len(self))]) if self.packed else None,
            complete=not self.packed,
        )

    @property
    def reads(self) -> tuple[Input, ...]:
        """The inputs of its examples."""
        parts = ((Input(), self.inputs), (Input("second", optional=True), self.second))
        given = tuple(part for part, lengths in parts if lengths)
        return (*given, *[Input("rows", many=True)] * bool(self.rows))

    @property
    def sizes(self) -> Sizes:
        """Sizes of a model for them."""
        return Sizes(VOCABULARY, VOCABULARY if self.level is Level.NEXT_TOKEN else OUTPUTS)


CASES = (
    EncodedCase(Level.NEXT_TOKEN, (3, 1, 5), (2, 4, 1)),
    EncodedCase(Level.NEXT_TOKEN, (), (4, 2, 5)),
    EncodedCase(Level.NEXT_TOKEN, (), (4, 4, 3), packed=True),
    EncodedCase(Level.TOKEN, (3, 1, 5)),
    EncodedCase(Level.SEQUENCE, (3, 1, 5)),
    EncodedCase(Level.VECTOR, (3, 1, 5)),
    EncodedCase(Level.VECTOR, (3, 1, 5), second=(2, 4, 1)),
    EncodedCase(Level.VECTOR, (3, 1, 5), rows=((2, 4), (1, 3, 2, 5, 1), (3, 6, 1))),
)
"""Examples of every level: with and without an input, whole texts and pieces of texts, several inputs."""


def ragged(lengths: Sequence[int], seed: int) -> Ragged:
    """Returns sequences of ordinary tokens."""
    draw = np.random.default_rng(seed)
    return Ragged(draw.integers(4, VOCABULARY, sum(lengths)), np.array(lengths, dtype=np.int64))


LONGEST = 128  # positions of a model
EXAMPLES = 6


def with_kinds(columns: Iterable[Column], registry: Registry) -> tuple[Column, ...]:
    """Returns columns with the kinds that they name."""
    return tuple(replace(column, kind=registry.create(Kind.COLUMN, column.holds)) for column in columns)


def _examples_of(task_type: TaskType, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Returns examples by column: the type's own, or made-up ones."""
    own = task_type.check_examples
    if own:
        return {name: [example[name] for example in own] for name in own[0]}
    found: dict[str, list[Any]] = {}
    for column in columns:
        draw = random.Random(column.name)  # noqa: S311
        if not column.optional:
            along = found.get(column.along or "", [None] * EXAMPLES)
            found[column.name] = [column.kind.example(draw, items) for items in along]
    return found


class SmallTask:
    """A task of any type that has learned from examples, by default the type's own or made-up ones."""

    def __init__(self, task_type: TaskType, examples: Any = None, registry: Registry | None = None) -> None:
        self.task_type, self._registry = task_type, registry or Registry.discover()
        self.columns = with_kinds(task_type.columns, self._registry)
        self.examples = _examples_of(task_type, self.columns) if examples is None else examples
        texts: list[str] = []
        features = Dataset.from_dict(dict(self.examples)).features.copy()
        for column in self.columns:
            values = self.examples.get(column.name, ())
            if isinstance(column.kind.feature, ClassLabel) and values:
                features[column.name] = ClassLabel(names=sorted(set(values)))
            for value in values if column.tokenizer else ():
                texts += [value] if isinstance(value, str) else value
        task_type.state = task_type.learn(Dataset.from_dict(dict(self.examples), features=features))
        tokenizer: Tokenizer = self._registry.create(Kind.TOKENIZER, "plugformer:characters")
        tokenizer.train(iter(texts))
        self.known = Processor(tokenizer, tokenizer, task_type)

    def __len__(self) -> int:
        return len(next(iter(self.examples.values())))

    @property
    def questions(self) -> Examples:
        """The input columns of the examples; empty if there are none."""
        inputs = [column.name for column in self.task_type.columns if column.role == "input"]
        return {name: self.examples[name] for name in inputs if name in self.examples}

    def encode(self, examples: Any = None, task_type: TaskType | None = None) -> dict[str, list[Any]]:
        """Returns examples, by default the task's, as the type or another one encodes them."""
        known = replace(self.known, task_type=task_type or self.task_type)
        return {
            part: [list(row) if isinstance(row, Sequence) else row for row in rows]
            for part, rows in known.encode(examples or self.examples).items()
        }

    def encoded(self) -> Encoded:
        """Returns the examples as the type encodes them."""
        return encoded_rows(self.encode(), self.task_type)

    def split(
        self,
        examples: Any = None,
        *,
        packed: bool = False,
        inference: bool = False,
        architecture: Architecture | None = None,
        limit: int = LONGEST,
    ) -> EncodedSplit:
        """Returns examples, by default the task's, as training sees them, or prediction (`inference`).

        Inputs are cut to `limit` tokens. By default they are for the first of `architectures`.
        """
        examples, limits = examples or self.examples, Limits(limit, LONGEST, 2 * LONGEST)
        encoded = self.known.encode_examples(examples, str)
        data = Dataset(pa.table({**examples, **columns_of(encoded)}))
        return EncodedSplit(
            *encoded_examples(data, self.task_type.level),
            self.task_type,
            architecture or self.architectures()[0],
            piece=LONGEST if packed and self.task_type.packed else None,
            inference=inference,
            limits={item.name: limit for item in self.task_type.inputs},
            sampling=partial(sample_subwords, processor=self.known, limits=limits, truncate=True),
        )

    def architectures(self) -> list[Architecture]:
        """Returns the installed architectures that serve the type."""
        names = fitting(self._registry, Kind.ARCHITECTURE, partial(reads, self.task_type))
        require.that(names, "no installed architecture serves its level and columns")
        return [self._registry.create(Kind.ARCHITECTURE, name) for name in names]

    def model(self, architecture: Architecture | None = None) -> Model:
        """Returns a small model with a head for the type's answers, by default of the first architecture."""
        if architecture is None:
            return self._first
        task_type = self.task_type
        heads = fitting(self._registry, Kind.HEAD, lambda head: serves(head, task_type))
        answers = f"its answers are {task_type.output_type!r}, which no installed head predicts"
        require.that(heads, answers)
        fit = (name for name, head in heads.items() if not head.reads and self._is_read_by(head))
        head = next(fit, next(iter(heads)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            return small_model(
                architecture,
                task_type.level,
                self.known.sizes,
                inputs=task_type.inputs,
                view=task_type.view,
                head=head,
                max_length=LONGEST,
                registry=self._registry,
            )

    def _is_read_by(self, head: type[Head]) -> bool:
        """Returns whether a head does not refuse the type's inputs."""
        with suppress(ConfigurationError):
            head(HeadContext(**vars(MODEL), outputs=OUTPUTS, inputs=self.task_type.inputs))
            return True
        return False

    @cached_property
    def _first(self) -> Model:
        return self.model(self.architectures()[0])

    def answers(self, questions: Examples | None = None, *, n_best: int = 1) -> list[Prediction]:
        """Returns the answers of its model to questions, by default the task's."""
        questions = questions or self.questions
        split = self.split(questions, inference=True)
        model = self.model()
        with evaluating(model):
            batch = split.batch(range(len(split)))
            return self.task_type.answer(model, batch, self.known.tokenizers, n_best)


@dataclass(frozen=True)
class TaskCase(EncodedCase):
    """The first three examples of a task type, for an architecture whose inputs are its own."""

    task: SmallTask = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.encoded())

    def encoded(self) -> Encoded:
        """Returns the examples as the type encodes them."""
        encoded = self.task.encoded().take(np.arange(3))
        if isinstance(encoded.targets, Ragged) and self.level is not Level.TOKEN:
            return replace(encoded, targets=encoded.targets.padded())
        return encoded

    @property
    def reads(self) -> tuple[Input, ...]:
        """The inputs of the type."""
        return self.task.task_type.inputs

    @property
    def sizes(self) -> Sizes:
        """Sizes of a model for them."""
        return self.task.known.sizes
