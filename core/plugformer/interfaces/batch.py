"""Examples as numbers: encoded, and as the batches that models read."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from plugformer.errors import ExampleError

ABSENT = -(2**31)
"""The integer for a token without a target, as NaN is among floats. Targets are larger: they have 32 bits."""


@dataclass(frozen=True)
class Tokens:
    """Token ids, one sequence to a row, padded on the right.

    Attributes:
        ids: Token ids, PADDING for padding.
        mask: The padding mask: True for real tokens, BEGIN and END included.
        full: Whether there is no padding, known without reading a device.
        rows_of: The numbers of each example's rows, filled up with -1; None if each example has one row.
        marks: A number of each token by name, which views read, such as 1 for tokens of a prefix.
    """

    ids: Int[Tensor, "batch length"]
    mask: Bool[Tensor, "batch length"]
    full: bool = False
    rows_of: Int[Tensor, "examples rows"] | None = None
    marks: Mapping[str, Int[Tensor, "batch length"]] = field(default_factory=dict)

    def narrow(self, length: int) -> "Tokens":
        """Returns the first `length` columns."""
        marks = {name: mark[:, :length] for name, mark in self.marks.items()}
        return Tokens(self.ids[:, :length], self.mask[:, :length], self.full, marks=marks)

    def select(self, rows: Int[Tensor, " rows"]) -> "Tokens":
        """Returns these rows, in this order, of examples with one row each."""
        marks = {name: mark.index_select(0, rows) for name, mark in self.marks.items()}
        ids, mask = self.ids.index_select(0, rows), self.mask.index_select(0, rows)
        return Tokens(ids, mask, self.full, marks=marks)

    @property
    def count(self) -> int:
        """Number of real tokens."""
        return int(self.mask.sum())

    def by_example(self, values: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "examples rows ..."]:
        """Returns the values of rows grouped by example; zeros where an example has fewer rows."""
        if self.rows_of is None:
            return values[:, None]
        missing = self.rows_of.view(*self.rows_of.shape, *[1] * (values.dim() - 1)) < 0
        return values[self.rows_of.clamp(min=0)].masked_fill(missing, 0)


_NO_TOKENS = Tokens(torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0, 0, dtype=torch.bool))
_NO_TARGETS = torch.zeros(0, dtype=torch.int64)


def _no_inputs(_: int) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Batch:
    """Examples that are computed together.

    Attributes:
        source: The tokens of a bidirectional stack.
        target: The tokens of a causal stack: a given beginning, then its continuation.
        reads: The tokens of each input by its name, where the architecture reads inputs by themselves.
        targets: Targets of the head other than the next tokens of `target`: (batch,) or (batch, outputs) for
            examples, or (batch, length) for the tokens of the source, ABSENT or NaN for none.
        weights: The weight of each example's targets, (batch,), or of each target; None for 1.
        given: Number of tokens in each row of `target` that are given and not predicted; if None one, BEGIN.
        rows: Each example's row in its split.
        asked: Returns the inputs of an example by its number in the batch, for answers that quote them.
    """

    source: Tokens = _NO_TOKENS
    target: Tokens = _NO_TOKENS
    reads: Mapping[str, Tokens] = field(default_factory=dict, kw_only=True)
    weights: Shaped[Tensor, "..."] | None = field(default=None, kw_only=True)
    targets: Shaped[Tensor, "..."] = _NO_TARGETS
    given: Int[Tensor, " batch"] | None = None
    rows: list[int] = field(default_factory=list)
    asked: Callable[[int], Mapping[str, Any]] = field(default=_no_inputs, repr=False, compare=False)

    @property
    def sequences(self) -> list[Tokens]:
        """All tokens that the stacks read."""
        return [tokens for tokens in (self.source, self.target, *self.reads.values()) if len(tokens.ids)]

    @property
    def tokens(self) -> int:
        """Number of real tokens that the stacks read."""
        return sum(tokens.count for tokens in self.sequences)

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.sequences[0].ids.device

    def pin_memory(self) -> "Batch":
        """Returns the same batch in memory that a CUDA device reads by itself."""
        return cast("Batch", _changed(self, Tensor.pin_memory))

    def to(self, device: torch.device | str) -> "Batch":
        """Returns the same batch on another device; copies to a CUDA device are asynchronous."""
        if torch.device(device) == self.device:
            return self
        if torch.device(device).type != "cuda" or self.device.type != "cpu":
            return cast("Batch", _changed(self, lambda tensor: tensor.to(device)))
        pinned = self.pin_memory()
        return cast("Batch", _changed(pinned, lambda tensor: tensor.to(device, non_blocking=True)))


def _changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns a value with each tensor within it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(part, change) for name, part in value.items()}
    return replace(value, **_changed(vars(value), change)) if isinstance(value, Batch | Tokens) else value


@dataclass(frozen=True)
class Ragged:
    """Sequences of different length, end to end in one array.

    Attributes:
        values: Token ids, or the targets of tokens: integers or floats, ABSENT or NaN for no target.
        lengths: The lengths of the sequences.
        counts: Number of sequences of each example; None for one each.
    """

    values: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
    lengths: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]] | None = None

    @classmethod
    def repeated(cls, value: int, count: int) -> "Ragged":
        """Returns `count` sequences of one token."""
        return cls(np.full(count, value, dtype=np.int64), np.ones(count, dtype=np.int64))

    def followed_by(self, other: "Ragged") -> "Ragged":
        """Returns each sequence followed by the other's sequence of the same number."""
        lengths = self.lengths + other.lengths
        rows = [np.repeat(np.arange(len(part.lengths)), part.lengths) for part in (self, other)]
        order = np.argsort(np.concatenate(rows), kind="stable")
        return Ragged(np.concatenate([self.values, other.values])[order], lengths)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int | float | None]]) -> "Ragged":
        """Returns sequences of token ids, or of targets; None is a token without a target.

        Raises:
            ExampleError: A target is not finite.
        """
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        numbers = [number for row in rows for number in row]
        present = np.array([number is not None for number in numbers], dtype=np.bool)
        values = np.array([0 if number is None else number for number in numbers])
        if len(values) == 0 or not np.issubdtype(values.dtype, np.floating):
            return cls(values.astype(np.int64), lengths).only(present)
        if not (finite := np.isfinite(values)).all():
            row = int(np.repeat(np.arange(len(rows)), lengths)[~finite][0])
            raise ExampleError(row, f"its targets are {rows[row]}, expected finite numbers")
        return cls(values, lengths).only(present)

    def only(self, present: NDArray[np.bool]) -> "Ragged":
        """Returns the same sequences with targets in these places alone."""
        floats = np.issubdtype(self.values.dtype, np.floating)
        return Ragged(np.where(present, self.values, np.nan if floats else ABSENT), self.lengths)

    @cached_property
    def starts(self) -> NDArray[np.integer[Any]]:
        """Where each sequence begins in the array."""
        return cast("NDArray[np.integer[Any]]", np.cumsum(self.lengths, dtype=np.int64) - self.lengths)

    @property
    def longest(self) -> NDArray[np.integer[Any]]:
        """The length of each example's sequence, or of its longest one."""
        if self.counts is None:
            return self.lengths
        longest = np.zeros_like(self.counts)
        np.maximum.at(longest, np.repeat(np.arange(len(longest)), self.counts), self.lengths)
        return longest

    def take(self, rows: NDArray[np.integer[Any]], limit: int = sys.maxsize) -> "Ragged":
        """Returns some examples, in the order asked for, with sequences cut to `limit` values."""
        counts = None
        if self.counts is not None:
            counts = self.counts[rows]
            rows = _ranges((np.cumsum(self.counts) - self.counts)[rows], counts)
        lengths = self.lengths[rows].clip(max=limit)
        return Ragged(self.gather(self.starts[rows], lengths), lengths, counts)

    def gather(self, starts: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Returns the values of ranges, end to end."""
        values: NDArray[Any] = self.values[_ranges(starts, lengths)]
        return values

    def padded(self) -> NDArray[Any]:
        """Returns the sequences as rows of one array, ABSENT or NaN after the shorter ones."""
        there = np.arange(self.lengths.max(initial=0)) < self.lengths[:, None]
        floats = np.issubdtype(self.values.dtype, np.floating)
        found: NDArray[Any] = np.full(there.shape, np.nan if floats else ABSENT)
        found[there] = self.values
        return found

    @property
    def present(self) -> NDArray[np.bool]:
        """Which values are targets."""
        floats = np.issubdtype(self.values.dtype, np.floating)
        return cast("NDArray[np.bool]", ~np.isnan(self.values) if floats else self.values != ABSENT)

    def rows(self) -> list[list[Any]]:
        """Returns the sequences as lists, None for a token without a target."""
        present = self.present
        values = self.values if present.all() else np.where(present, self.values, None)  # type: ignore[call-overload]
        return [row.tolist() for row in np.split(values, np.cumsum(self.lengths))[:-1]]


def _ranges(starts: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Returns ranges of numbers, end to end."""
    before = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    return cast("NDArray[np.integer[Any]]", before + np.arange(lengths.sum()))


@dataclass(frozen=True)
class Encoded:
    """Examples as a task type encodes them, without BEGIN, END and padding.

    Attributes:
        inputs: Token ids of the inputs by name. Questions may lack an optional one.
        output: Token ids of the outputs; None if there are none, or in prediction.
        targets: Targets of the examples, (examples,) or (examples, outputs), a `Ragged` where they differ in
            number; or of their input tokens.
        start: Given token ids at the beginning of each output, BEGIN included; None for BEGIN alone.
        complete: Whether END follows the outputs.
        weights: The weight of each example's targets; at level `token` also of each input token, at level
            `next-token` of each output token and of END; None for 1.
    """

    inputs: Mapping[str, Ragged] = field(default_factory=dict)
    output: Ragged | None = None
    targets: Ragged | NDArray[Any] | None = None
    start: Ragged | None = None
    complete: bool = True
    weights: Ragged | NDArray[np.floating[Any]] | None = None

    @property
    def parts(self) -> dict[str, Ragged]:
        """The token ids of the inputs by name, and of `output`, if there are any."""
        return {**self.inputs} if self.output is None else {**self.inputs, "output": self.output}

    @property
    def input(self) -> Ragged | None:
        """The token ids of the first input, the only one of most tasks; None if there is none."""
        return next(iter(self.inputs.values()), None)

    def take(self, rows: NDArray[np.integer[Any]], limits: Mapping[str, int] | None = None) -> "Encoded":
        """Returns some examples, in the order asked for.

        Args:
            rows: Their numbers.
            limits: Maximum lengths of inputs, `output`, `targets` and `weights`, by name.
        """
        limits = limits or {}

        def part(value: Any, name: str) -> Any:
            if isinstance(value, Ragged):
                return value.take(rows, limits.get(name, sys.maxsize))
            return None if value is None else value[rows]

        return replace(
            self,
            inputs={name: part(tokens, name) for name, tokens in self.inputs.items()},
            output=part(self.output, "output"),
            targets=part(self.targets, "targets"),
            start=part(self.start, ""),
            weights=part(self.weights, "weights"),
        )

    def __len__(self) -> int:
        """Returns the number of examples."""
        tokens = self.input or self.output or self.start
        return 0 if tokens is None else len(tokens.lengths if tokens.counts is None else tokens.counts)
