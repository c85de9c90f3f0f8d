"""Small models of any architecture, made of built-in parts, and encoded examples for them to read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import ndarray

from plugformer.configuration import Task
from plugformer.interfaces import IGNORED, Architecture, Encoded, Level, Model, Ragged, Sizes
from plugformer.model import Builder, initialize
from plugformer.registry import Kind, Registry
from plugformer_testing.probes import perturbed
from plugformer_testing.subject import MODEL, OUTPUTS

VOCABULARY = 13
MAX_LENGTH = MODEL.max_length

HEADS = {Level.NEXT_TOKEN: "language_model", Level.TOKEN: "token_classifier", Level.SEQUENCE: "classifier"}
"""A built-in head for each level."""


def small_model(
    architecture: Architecture,
    level: Level,
    sizes: Sizes,
    *,
    head: str = "",
    position: str = "rope",
    max_length: int = MAX_LENGTH,
    registry: Registry | None = None,
) -> Model:
    """Returns a model of two layers in double precision and evaluation mode, its parameters perturbed.

    Args:
        architecture: How it is made of stacks.
        level: What the head predicts from.
        sizes: Of the vocabulary and of the head.
        head: Name of its component; one of `HEADS` if empty.
        position: Name of the positional encoding.
        max_length: Of the model.
        registry: Has the parts; what is installed if None.
    """
    block = {"name": "-"}
    sizes_of_parts = {name: value for name, value in vars(MODEL).items() if name != "place"}
    parts = {"architecture": block, "head": head or HEADS[level], "position": position, "layers": 2}
    settings = {**sizes_of_parts, **parts, "max_length": max_length}
    task = Task.model_validate({"type": block, "data": block, "tokenizer": block, "model": settings})
    registry = registry or Registry.discover()
    model = architecture.build(Builder(task, architecture, registry), sizes, level)
    initialize(model, 1, registry.create(Kind.INITIALIZATION, task.model.initialization.name))
    return perturbed(model)


@dataclass(frozen=True)
class Reading:
    """Examples by their lengths, and what they are read for.

    Attributes:
        level: What is predicted from.
        inputs: Tokens of each input; none if there are no inputs.
        outputs: Tokens of each output; none if there are no outputs.
        packed: Whether outputs are pieces of a text, which no END follows.
    """

    level: Level
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    packed: bool = False

    def __str__(self) -> str:
        said = [f"inputs of {_listed(self.inputs)} tokens"] * bool(self.inputs)
        said += [f"{'pieces' if self.packed else 'outputs'} of {_listed(self.outputs)}"] * bool(self.outputs)
        return f"{self.level}: {', '.join(said)}"

    def __len__(self) -> int:
        return len(self.inputs or self.outputs)

    def encoded(self) -> Encoded:
        """Returns the examples: the same tokens each time, different in every example."""
        start = Ragged.of([[5 + row] for row in range(len(self))]) if self.packed else None
        return Encoded(
            ragged(self.inputs, 1) if self.inputs else None,
            ragged(self.outputs, 2) if self.outputs else None,
            self._targets(),
            start,
            complete=not self.packed,
        )

    @property
    def sizes(self) -> Sizes:
        """Sizes of a model for them."""
        return Sizes(VOCABULARY, VOCABULARY if self.level is Level.NEXT_TOKEN else OUTPUTS)

    def _targets(self) -> Ragged | ndarray | None:
        if self.level is Level.SEQUENCE:
            return np.arange(len(self)) * 3 % OUTPUTS
        if self.level is Level.NEXT_TOKEN:
            return None
        values = [
            [IGNORED if place % 3 == 1 else (row + place) % OUTPUTS for place in range(length)]
            for row, length in enumerate(self.inputs)
        ]
        return Ragged.of(values)


def ragged(lengths: Sequence[int], seed: int) -> Ragged:
    """Returns sequences of ordinary tokens."""
    draw = np.random.default_rng(seed)
    return Ragged(draw.integers(4, VOCABULARY, sum(lengths)), np.array(lengths, dtype=np.int64))


def taken(encoded: Encoded, rows: Sequence[int]) -> Encoded:
    """Returns some examples, in the order asked for."""

    def chosen(part: Ragged | ndarray | None) -> Any:
        if isinstance(part, Ragged):
            sequences = part.rows()
            return Ragged.of([sequences[row] for row in rows])
        return None if part is None else part[list(rows)]

    parts = ("input", "output", "targets", "start")
    return replace(encoded, **{part: chosen(getattr(encoded, part)) for part in parts})


READINGS = (
    Reading(Level.NEXT_TOKEN, (3, 1, 5), (2, 4, 1)),
    Reading(Level.NEXT_TOKEN, (), (4, 2, 5)),
    Reading(Level.NEXT_TOKEN, (), (4, 4, 3), packed=True),
    Reading(Level.TOKEN, (3, 1, 5)),
    Reading(Level.SEQUENCE, (3, 1, 5)),
)
"""Examples of every level: with and without an input, whole texts and pieces of texts."""


def _listed(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))
