"""Small models of any architecture, made of built-in parts, and encoded examples for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import ndarray

from plugformer.interfaces import (
    IGNORED,
    Architecture,
    Encoded,
    LayerSpec,
    Level,
    Model,
    ModelSpec,
    PartSpec,
    Ragged,
    Sizes,
    StackSpec,
)
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer_testing.probes import perturbed
from plugformer_testing.subject import MODEL, OUTPUTS

VOCABULARY = 13
MAX_LENGTH = MODEL.max_length
LAYERS = 2

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

    Its head and its positional encoding are given by name; the head is one of `HEADS` by default.
    """
    registry = registry or Registry.discover()

    def part(kind: Kind, name: str) -> PartSpec:
        return PartSpec(registry.load(kind, name), label=f"{kind} {name!r}")

    attention, norm = part(Kind.ATTENTION, "mha"), part(Kind.NORM, "layer_norm")
    residual, feed_forward = part(Kind.RESIDUAL, "pre"), part(Kind.FEED_FORWARD, "gelu")
    stacks: dict[str, StackSpec] = {}
    for stack in architecture.stacks:
        crossing = {"cross_attention": attention} if stack.cross else {}
        sublayers = {"attention": attention, **crossing, "feed_forward": feed_forward}
        stacks[stack.name] = StackSpec(
            name=stack.name,
            causal=stack.causal,
            layers=(LayerSpec(sublayers, norm, residual),) * LAYERS,
            position=part(Kind.POSITION, position),
            norm=norm,
            read_by=0 if stack.cross else LAYERS * any(other.cross for other in architecture.stacks),
        )
    shared = {name: value for name, value in vars(MODEL).items() if name not in ("place", "max_length")}
    spec = ModelSpec(
        architecture=architecture,
        level=level,
        stacks=stacks,
        head=part(Kind.HEAD, head or HEADS[level]),
        initialization=part(Kind.INITIALIZATION, "default"),
        max_length=max_length,
        **shared,
    )
    return perturbed(build(spec, sizes))


@dataclass(frozen=True)
class EncodedCase:
    """Examples by the lengths of their inputs and outputs, if any, and what is predicted from them.

    Packed outputs are pieces of a text, without END.
    """

    level: Level
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    packed: bool = False

    def __len__(self) -> int:
        return len(self.inputs or self.outputs)

    def encoded(self) -> Encoded:
        """Returns the examples: the same tokens each time, different in every example."""
        targets: Ragged | ndarray | None = None
        if self.level is Level.SEQUENCE:
            targets = np.arange(len(self)) * 3 % OUTPUTS
        elif self.level is Level.TOKEN:
            rows = [(np.arange(length) + row) % OUTPUTS for row, length in enumerate(self.inputs)]
            targets = Ragged.of(
                [np.where(np.arange(len(row)) % 3 == 1, IGNORED, row).tolist() for row in rows]
            )
        return Encoded(
            ragged(self.inputs, 1) if self.inputs else None,
            ragged(self.outputs, 2) if self.outputs else None,
            targets,
            Ragged.of([[5 + row] for row in range(len(self))]) if self.packed else None,
            complete=not self.packed,
        )

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
)
"""Examples of every level: with and without an input, whole texts and pieces of texts."""


def ragged(lengths: Sequence[int], seed: int) -> Ragged:
    """Returns sequences of ordinary tokens."""
    draw = np.random.default_rng(seed)
    return Ragged(draw.integers(4, VOCABULARY, sum(lengths)), np.array(lengths, dtype=np.int64))


def take(encoded: Encoded, rows: Sequence[int]) -> Encoded:
    """Returns some examples, in the order of `rows`."""

    def chosen(part: Ragged | ndarray | None) -> Any:
        if isinstance(part, Ragged):
            sequences = part.rows()
            return Ragged.of([sequences[row] for row in rows])
        return None if part is None else part[list(rows)]

    parts = ("input", "output", "targets", "start")
    return replace(encoded, **{part: chosen(getattr(encoded, part)) for part in parts})
