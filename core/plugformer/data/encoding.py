"""Examples as numbers: pieces of texts, splits, and the batches made of them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer.errors import ExampleError, RegistryError
from plugformer.interfaces import (
    BEGIN,
    END,
    Architecture,
    Batch,
    Encoded,
    Example,
    Level,
    Ragged,
    TaskType,
    as_text,
)

Lengths = Int[ndarray, "examples sequences"]
Counts = Int[ndarray, "#examples #sequences"]
ONE = np.ones((1, 1), dtype=np.int64)


def sequences_of(
    architecture: Architecture,
    lengths: Int[ndarray, "examples parts"],
    counts: Int[ndarray, "examples parts"],
    level: Level,
) -> tuple[Lengths, Counts]:
    """Returns what `positions` and `rows` of an architecture return.

    Raises:
        RegistryError: There is not a number of rows for each sequence, or one for all.
    """
    sequences, rows = architecture.positions(lengths, level), architecture.rows(counts, level)
    if rows.ndim != sequences.ndim or any(
        size not in (1, whole) for size, whole in zip(rows.shape, sequences.shape, strict=True)
    ):
        name = f"{type(architecture).__module__}:{type(architecture).__qualname__}"
        raise RegistryError(
            f"{name}: `rows` returns numbers of shape {rows.shape}, expected a column for each "
            f"sequence of `positions`, whose shape is {sequences.shape}; define `rows` with `positions`"
        )
    return sequences, rows


def evaluation_order(
    lengths: Lengths, rows: Sequence[int], counts: Counts = ONE, *, tokens: int
) -> list[list[int]]:
    """Returns batches of some rows, each as large as a budget of positions allows, padding included.

    A longer example is a batch of its own. The longest come first: memory runs out at once or never.
    """
    if len(rows) == 1:
        return [[*rows]]
    chosen = np.asarray(rows, dtype=np.int64)
    chosen = chosen[np.lexsort((lengths * counts)[chosen].T[::-1])[::-1]]
    sequences, numbers = lengths[chosen], np.broadcast_to(counts, lengths.shape)[chosen]
    batches: list[list[int]] = []
    start = 0
    while start < len(chosen):
        # The first example's width limits the number of examples of the batch.
        window = slice(start, start + max(tokens // max(sequences[start].sum(), 1), 1))
        widths = np.maximum.accumulate(sequences[window], axis=0)
        positions = (widths * np.cumsum(numbers[window], axis=0)).sum(axis=1)
        stop = start + max(int(np.searchsorted(positions, tokens, side="right")), 1)
        batches.append(chosen[start:stop].tolist())
        start = stop
    return batches


def encoded_rows(columns: Mapping[str, Sequence[Any]], task_type: TaskType) -> Encoded:
    """Returns the numbers that a task's type has made of examples, as its `encode` returns them."""
    many = [item.name for item in task_type.inputs if item.many]
    parts: dict[str, Any] = {}
    for name, rows in columns.items():
        if name in many:
            counts = np.array([len(row) for row in rows], dtype=np.int64)
            parts[name] = replace(Ragged.of([*chain.from_iterable(rows)]), counts=counts)
        elif name == "weights":
            listed = Ragged.of(rows) if any(map(np.ndim, rows)) else None
            floats = (np.array(rows) if listed is None else listed.values).astype(float)
            parts[name] = floats if listed is None else replace(listed, values=floats)
        else:
            by_example = name == "targets" and task_type.level is not Level.TOKEN
            rectangular = by_example and (len(rows) == 0 or len({np.size(row) for row in rows}) == 1)
            parts[name] = np.array(rows) if rectangular else Ragged.of(rows)
    inputs = {item.name: parts.pop(item.name) for item in task_type.inputs if item.name in parts}
    return Encoded(inputs, **parts)


def refuse_weights(weights: Any) -> None:
    """Raises ExampleError for a weight that is negative or not finite."""
    values = weights.values if isinstance(weights, Ragged) else weights
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        row, value = wrong[0], values[wrong[0]]
        if isinstance(weights, Ragged):
            row = np.searchsorted(np.cumsum(weights.lengths), row, side="right")
        raise ExampleError(int(row), f"its weight is {value}, expected a finite number of at least 0")


def packed(texts: Ragged, rows: Int[ndarray, " rows"], length: int) -> Ragged:
    """Returns a stream of tokens, BEGIN and then each text followed by END, in pieces of `length` tokens.

    Every token but BEGIN is in exactly one piece; the last may be shorter. A piece starts at the token before
    it, from which its first token is predicted. All tokens of `rows` are in memory, four bytes each.
    """
    whole = texts.take(rows)
    tokens = np.insert(whole.values.astype(np.int32), np.cumsum(whole.lengths), END)
    lengths = np.diff(np.arange(0, len(tokens), length), append=len(tokens))
    return Ragged(np.insert(tokens, 0, BEGIN), lengths)


def pieces_of(stream: Ragged, chosen: Int[ndarray, " chosen"], offset: int = 0) -> Encoded:
    """Returns some pieces of a packed stream, each after a given token.

    In training they begin `offset` tokens later, but within the stream, so that a token's context changes.
    """
    lengths = stream.lengths[chosen]
    before = np.minimum(stream.starts[chosen] + offset, len(stream.values) - 1 - lengths)
    output, one = Ragged(stream.gather(before + 1, lengths), lengths), np.ones_like(lengths)
    return Encoded(output=output, start=Ragged(stream.gather(before, one), one), complete=False)


class EncodedSplit:
    """The examples of one split, as numbers and as text.

    Args:
        examples: A list or `Dataset` of `Example`, with labels by their names.
        encoded: Their numbers.
        task_type: Has encoded them.
        architecture: Makes batches of them.
        rows: Rows of `examples` that belong to the split, after dropping by length; all if None.
        limits: Maximum lengths of rows of the inputs and of `output`, in tokens; longer ones are cut.
        padding: Minimum length of the sequences of a batch.
        inference: Whether outputs are prompts to be continued; nothing is drawn then.
        piece: Tokens of the pieces into which outputs are joined and cut; the pieces are then the examples.
        sampling: Encodes examples again in every epoch of training, like `sample_subwords`, if not None.

    Attributes:
        lengths: Tokens of each example's sequences in a batch, with special tokens and fixed padding.
        counts: Rows of each sequence, or of all.
    """

    def __init__(
        self,
        examples: Any,
        encoded: Encoded,
        task_type: TaskType,
        architecture: Architecture,
        *,
        rows: Int[ndarray, " rows"] | None = None,
        limits: Mapping[str, int] | None = None,
        padding: int = 0,
        inference: bool = False,
        piece: int | None = None,
        sampling: Callable[..., Encoded] | None = None,
    ) -> None:
        self._examples = examples
        names = [item.name for item in task_type.inputs]
        inputs = {name: encoded.inputs[name] for name in names if name in encoded.inputs}
        self._numbers = replace(encoded, inputs=inputs)
        self._type = task_type
        self._input_names = [column.name for column in task_type.columns if column.role == "input"]
        self._architecture = architecture
        self._rows = np.arange(len(examples)) if rows is None else rows
        self._limits = dict(limits or {})
        if task_type.level is Level.TOKEN and (limit := self._limits.get(next(iter(inputs), ""))):
            self._limits |= {"targets": limit, "weights": limit}
        elif limit := self._limits.get("output"):
            self._limits["weights"] = limit + 1  # with that of END
        self._padding = padding
        self._inference = inference
        self._sampling = sampling
        self._packed = None
        parts = self._numbers.parts
        if piece is not None:
            if encoded.weights is not None:
                name = type(task_type).__name__
                raise RegistryError(f"{name}: `encode` returns weights of texts that are cut into pieces")
            self._packed = packed(parts.pop("output"), self._rows, piece)
            self._rows = np.arange(len(self._packed.lengths))
        shape = len(self), len(names) + 1
        lengths, counts = np.full(shape, -1), np.ones(shape, dtype=np.int64)
        for number, name in enumerate((*names, "output")):
            if (part := parts.get(name)) is not None:
                lengths[:, number] = part.longest.clip(max=self._limits.get(name, sys.maxsize))[self._rows]
                counts[:, number] = 1 if part.counts is None else part.counts[self._rows]
        if self._packed is not None:
            lengths[:, -1] = self._packed.lengths - 1  # no END follows a piece
        sequences, self.counts = sequences_of(architecture, lengths, counts, task_type.level)
        self.lengths: Int[ndarray, "examples sequences"] = np.where(
            sequences > 0, sequences.clip(min=padding), sequences
        )

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, rows: Sequence[int]) -> "EncodedSplit":
        """Returns a split of some examples, in this order."""
        chosen, split = np.asarray(rows, dtype=np.int64), copy(self)
        split._rows, split.lengths = self._rows[chosen], self.lengths[chosen]
        split.counts = self.counts if len(self.counts) == 1 else self.counts[chosen]
        return split

    def batch(
        self,
        rows: Sequence[int],
        lengths: Sequence[int] = (),
        *,
        outputs: Sequence[Sequence[int]] | None = None,
        epoch: Sequence[int] | None = None,
    ) -> Batch:
        """Returns some examples as a batch; `lengths` are the least ones of its sequences, if not empty.

        In training, random parts depend on `epoch`, the seed and the number of the epoch. The token numbers
        `outputs` replace those of the examples.
        """
        chosen = self._rows[np.asarray(rows, dtype=np.int64)]
        encoded = self._encoded(chosen, epoch)
        if self._sampling is not None and epoch is not None:
            generators = [np.random.default_rng([2, *epoch, row]) for row in chosen]
            encoded = self._sampling(encoded, [self.example(row) for row in rows], generators)
        if type(self._type).draw is not TaskType.draw and not self._inference:
            seeds = [0] if epoch is None else [1, *epoch]
            encoded = self._type.draw(encoded, [np.random.default_rng([*seeds, row]) for row in chosen])
        if outputs is not None:
            encoded = replace(encoded, output=Ragged.of(outputs), complete=True)
        if isinstance(encoded.targets, Ragged) and self._type.level is not Level.TOKEN:
            encoded = replace(encoded, targets=encoded.targets.padded())
        least = [max(self._padding, length) for length in lengths or [0] * self.lengths.shape[1]]
        batch = self._architecture.collate(encoded, self._type.level, lengths=least)
        if encoded.weights is not None and not self._inference:
            batch = replace(batch, weights=self._weights(encoded, batch, least))

        def asked(number: int) -> Example:
            example = self.example(rows[number])
            return {name: value for name, value in example.items() if name in self._input_names}

        return replace(batch, rows=list(rows), asked=asked)

    def _encoded(self, chosen: Int[ndarray, " chosen"], epoch: Sequence[int] | None) -> Encoded:
        """Returns some rows as their task type encoded them; pieces begin elsewhere in every epoch."""
        if self._packed is not None:
            length = int(self._packed.lengths.max(initial=1))
            offset = 0 if epoch is None else int(np.random.default_rng([3, *epoch]).integers(length))
            return pieces_of(self._packed, chosen, offset)
        encoded = self._numbers.take(chosen, self._limits)
        if self._inference and encoded.output is not None:  # a prompt
            start = Ragged.repeated(BEGIN, len(chosen)).followed_by(encoded.output)
            return replace(encoded, start=start, output=None)
        return encoded

    def _weights(self, encoded: Encoded, batch: Batch, lengths: Sequence[int]) -> Tensor:
        """Returns the weights of examples, or of each target, in the places that the targets have.

        Raises:
            RegistryError: There are weights of tokens, but the head predicts no targets of these; or weights
                are too few or too many, negative or not finite.
        """
        weights, level = encoded.weights, self._type.level
        returns = f"{type(self._type).__name__}: `encode` or `draw` returns"
        of_tokens = {Level.TOKEN: encoded.input, Level.NEXT_TOKEN: encoded.output}.get(level)
        if isinstance(weights, Ragged) and of_tokens is None:
            raise RegistryError(
                f"{returns} weights of tokens at level {level}, expected one for each example"
            )
        if isinstance(weights, Ragged) and of_tokens is not None:
            ends = level is Level.NEXT_TOKEN and encoded.complete
            shape, expected = weights.lengths.tolist(), (of_tokens.lengths + ends).tolist()
        else:
            weights = np.asarray(weights, dtype=np.float32)
            shape, expected = list(weights.shape), [len(encoded)]
        if shape != expected:
            raise RegistryError(f"{returns} weights of the shape {shape}, expected {expected}")
        try:
            refuse_weights(weights)
        except ExampleError as error:
            raise RegistryError(f"{returns} weights of which one is wrong: {error}") from error
        if not isinstance(weights, Ragged):
            return torch.from_numpy(weights)
        if level is Level.TOKEN:
            as_targets = replace(encoded, targets=weights)
            return self._architecture.collate(as_targets, level, lengths=lengths).targets
        return _at_next_tokens(torch.from_numpy(weights.values.astype(np.float32)), batch)

    def example(self, row: int) -> Example:
        """Returns the values of an example by column, a label by its name; none for a piece.

        Optional columns that it lacks are left out.
        """
        return {} if self._packed is not None else self.examples([row])[0]

    def examples(self, rows: Sequence[int]) -> list[Example]:
        """Returns the values of several examples at once, as `example` does; not of pieces."""
        chosen = self._rows[np.asarray(rows, dtype=np.int64)].tolist()
        if isinstance(self._examples, list):
            found = [self._examples[row] for row in chosen]
        else:
            columns = self._examples[chosen]
            found = [
                dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
            ]
        return [{name: value for name, value in example.items() if value is not None} for example in found]

    def sequences(self, rows: Sequence[int]) -> list[Int[ndarray, " length"]]:
        """Returns the token ids that some rows generate, END included, after the last one that is given."""
        encoded, one = self._encoded(self._rows[np.asarray(rows, dtype=np.int64)], None), np.ones_like
        start = encoded.start or Ragged.repeated(BEGIN, len(rows))
        given = start.gather(start.starts + start.lengths - 1, one(start.lengths))
        whole = Ragged(given, one(start.lengths)).followed_by(cast("Ragged", encoded.output))
        if encoded.complete:
            whole = whole.followed_by(Ragged.repeated(END, len(rows)))
        return np.split(whole.values, np.cumsum(whole.lengths)[:-1])

    def input(self, row: int) -> str:
        """Returns the input of an example as text."""
        example = self.example(row)
        if not example:
            return f"piece {row + 1}"
        names = self._input_names or list(example)[:1]
        return "\t".join(as_text(example[name]) for name in names if name in example)

    def references(self, row: int) -> list[Any]:
        """Returns the right answers to an example: texts, labels, tags or numbers."""
        example = self.example(row)
        if not example:
            return [""]
        references: list[Any] = self._type.references(example)
        targets = self._numbers.targets
        if isinstance(targets, Ragged) and isinstance(references[0], list):
            within = targets.take(self._rows[[row]], self._limits.get("targets", sys.maxsize))
            kept = int(within.present.sum())  # tags are cut with their words
            references = [list(tags)[:kept] for tags in references]
        return references

    def units(
        self, unit: Literal["characters", "bytes"], targets: Int[ndarray, " examples"]
    ) -> Float[ndarray, " examples"]:
        """Returns the number of characters or bytes of each example's output texts within the limits.

        Pieces share those of all texts in proportion to their numbers of `targets`.
        """
        texts = [column for column in self._type.columns if column.holds == "text"]
        counted = [column for column in texts if column.role == "output"] or texts

        def size(example: Example) -> int:
            found = (example.get(column.name) or "" for column in counted)
            return sum(len(text if unit == "characters" else text.encode()) for text in found)

        if self._packed is not None:
            return cast("ndarray", targets * (sum(map(size, self._examples)) / self._packed.lengths.sum()))
        sizes = np.array([size(self.example(row)) for row in range(len(self))], float)
        if (output := self._numbers.output) is None:
            return sizes
        kept = output.longest.clip(1, self._limits.get("output", sys.maxsize)) / output.longest.clip(min=1)
        return cast("ndarray", sizes * kept[self._rows])


def _at_next_tokens(values: Float[Tensor, " targets"], batch: Batch) -> Float[Tensor, "batch length"]:
    """Returns values of the tokens that follow what is given, in the places where they are predicted."""
    real = batch.target.mask[:, 1:]
    given = 1 if batch.given is None else batch.given[:, None]
    predicted = real & (torch.arange(1, real.shape[1] + 1) >= given)
    return torch.ones(real.shape).masked_scatter(predicted, values)
