"""Examples as numbers: columns of tokens, pieces of texts, and the batches made of them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.typing import NDArray

from plugformer.interfaces import (
    BEGIN,
    END,
    Architecture,
    Batch,
    Encoded,
    Example,
    Ragged,
    TaskType,
    as_text,
)

Rows = list[int]


def token_batches(
    lengths: Int[ndarray, "examples sides"], *, tokens: int, seed: int, epoch: int
) -> list[Rows]:
    """Returns one epoch's batches under a token budget: a pure function of its arguments.

    Examples of similar length share a batch. Each epoch, counted from 0, draws again which examples, and the
    order of the batches. An example that exceeds the budget is a batch by itself.

    The budget `tokens` is for a batch's rows times (longest source + longest target). `lengths` has the
    tokens of each example's source and target, special tokens included.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(lengths))
    # lexsort is stable: rows of equal lengths stay shuffled.
    by_length = shuffled[np.lexsort(lengths[shuffled].T[::-1])]
    batches = _cut(by_length, lengths, tokens)
    return [batches[number] for number in generator.permutation(len(batches))]


def sized_batches(examples: int, *, size: int, seed: int, epoch: int) -> list[Rows]:
    """Returns one epoch's batches of `size` shuffled examples each; the last one has what remains."""
    shuffled = np.random.default_rng([seed, epoch]).permutation(examples).tolist()
    return [shuffled[start : start + size] for start in range(0, examples, size)]


def evaluation_order(
    lengths: Int[ndarray, "examples sides"], rows: Sequence[int], *, tokens: int
) -> list[Rows]:
    """Returns batches of some rows under a budget, as `token_batches` has it.

    The longest come first: memory runs out at once or never.
    """
    chosen = np.asarray(rows, dtype=np.int64)
    by_length = chosen[np.lexsort(lengths[chosen].T[::-1])[::-1]]
    return _cut(by_length, lengths, tokens)


def _cut(rows: Int[ndarray, " rows"], lengths: Int[ndarray, "examples sides"], tokens: int) -> list[Rows]:
    """Cuts rows, in their order, into batches as large as the budget allows."""
    sides = lengths[rows]
    batches: list[Rows] = []
    start = 0
    while start < len(rows):
        # The first row's width limits the number of rows of the batch.
        window = sides[start : start + max(tokens // max(sides[start].sum(), 1), 1)]
        widths = np.maximum.accumulate(window, axis=0).sum(axis=1)
        positions = widths * np.arange(1, len(window) + 1)
        stop = start + max(int(np.searchsorted(positions, tokens, side="right")), 1)
        batches.append(rows[start:stop].tolist())
        start = stop
    return batches


class TokenColumn:
    """A column of lists of numbers: tokens, or the targets of tokens; rows are cut to `limit`.

    The numbers of all rows are in one array or several. For each of these, `offsets` has where its rows
    begin, and where the last one ends.
    """

    def __init__(
        self, values: Sequence[ndarray], offsets: Sequence[Int[ndarray, " bounds"]], limit: int = sys.maxsize
    ) -> None:
        self._limit = limit
        self._values = values
        self._offsets = offsets
        self._first_rows = np.cumsum([0, *(len(bounds) - 1 for bounds in offsets)])

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> "TokenColumn":
        """Returns a column of rows in memory, None where a token has no target."""
        ragged = Ragged.of(rows)
        return cls([ragged.values], [np.cumsum([0, *ragged.lengths])])

    def cut(self, limit: int) -> "TokenColumn":
        """Returns the column with its rows cut to `limit` tokens."""
        return TokenColumn(self._values, self._offsets, limit)

    @property
    def lengths(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row."""
        return self.whole.clip(max=self._limit)

    @property
    def whole(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row before it is cut."""
        none = np.empty(0, dtype=np.int64)  # concatenate needs at least one array
        return np.concatenate([none, *(np.diff(offsets) for offsets in self._offsets)])

    def take(self, rows: Int[ndarray, " chosen"]) -> Ragged:
        """Returns some rows, in the order asked for."""
        chunks = np.searchsorted(self._first_rows, rows, side="right") - 1
        inside = rows - self._first_rows[chunks]
        pieces = [
            self._values[chunk][self._offsets[chunk][row] : self._offsets[chunk][row + 1]][: self._limit]
            for chunk, row in zip(chunks.tolist(), inside.tolist(), strict=True)
        ]
        values = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
        return Ragged(values, np.array([len(piece) for piece in pieces], dtype=np.int64))


class Packed:
    """Pieces of a stream of tokens: BEGIN, then each text followed by END.

    Every token but BEGIN is in exactly one piece of `length` tokens; the last may be shorter. Training begins
    pieces at another offset in each epoch, so that the context of a token changes. All tokens of `rows` are
    in memory, four bytes each.
    """

    def __init__(self, texts: TokenColumn, rows: Int[ndarray, " rows"], length: int) -> None:
        whole = texts.take(rows)
        tokens = np.insert(whole.values.astype(np.int32), np.cumsum(whole.lengths), END)
        self._stream = np.insert(tokens, 0, BEGIN)
        self.length = length

    def __len__(self) -> int:
        return -(-(len(self._stream) - 1) // self.length)

    @property
    def lengths(self) -> Int[ndarray, " pieces"]:
        """Number of tokens of every piece."""
        lengths = np.full(len(self), self.length)
        lengths[-1:] = len(self._stream) - 1 - (len(self) - 1) * self.length
        return lengths

    def take(self, pieces: Int[ndarray, " chosen"], offset: int = 0) -> tuple[Ragged, Ragged]:
        """Returns some pieces `offset` tokens later, but within the stream, and the token before each."""
        lengths = self.lengths[pieces]
        starts = np.minimum(1 + pieces * self.length + offset, len(self._stream) - lengths)
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        before = Ragged(self._stream[starts - 1], np.ones(len(pieces), dtype=np.int64))
        return Ragged(self._stream[places], lengths), before


EncodedExamples = tuple[Any, Mapping[str, TokenColumn], TokenColumn | NDArray[Any] | None]
"""A list or `Dataset` of `Example`, with labels by their names; the token numbers of `input` and `output`;
and the targets of each example, or of its tokens."""


class EncodedSplit:
    """The examples of one split, as numbers and as text.

    Args:
        rows: Rows of `data` that belong to the split, after dropping by length; all if None.
        limits: Most tokens of `input` and `output`; longer ones are cut.
        padding: Least length of a batch; None for that of its longest example.
        inference: Whether outputs are prompts to be continued; nothing is drawn then.
        piece: Tokens of the pieces into which outputs are joined and cut; the pieces are then the examples.
        sampling: Encodes examples again in every epoch of training, like `sample_subwords`, if not None.

    Attributes:
        lengths: Tokens of each example's sequences in a batch, with special tokens and fixed padding.
    """

    def __init__(
        self,
        data: EncodedExamples,
        task_type: TaskType,
        architecture: Architecture,
        *,
        rows: Int[ndarray, " rows"] | None = None,
        limits: Mapping[str, int] | None = None,
        padding: int | None = None,
        inference: bool = False,
        piece: int | None = None,
        sampling: Callable[..., Encoded] | None = None,
    ) -> None:
        self._examples, tokens, self._targets = data
        self._type = task_type
        self._input_names = [column.name for column in task_type.columns if column.role == "input"]
        self._architecture = architecture
        self._rows = np.arange(len(self._examples)) if rows is None else rows
        self._padding = padding
        self._inference = inference
        self._sampling = sampling
        limits = limits or {}
        self._columns = {name: column.cut(limits.get(name, sys.maxsize)) for name, column in tokens.items()}
        if isinstance(self._targets, TokenColumn):
            self._targets = self._targets.cut(limits.get("input", sys.maxsize))
        self._packed = None
        absent = np.full(len(self._rows), -1)
        sides = [
            self._columns[name].lengths[self._rows] if name in self._columns else absent
            for name in ("input", "output")
        ]
        if piece is not None:
            self._packed = Packed(self._columns.pop("output"), self._rows, piece)
            self._rows = np.arange(len(self._packed))
            sides = [np.full(len(self._packed), -1), self._packed.lengths]
        sequences = architecture.positions(np.stack(sides, axis=1), task_type.level)
        self.lengths: Int[ndarray, "examples sequences"] = np.where(
            sequences > 0, sequences.clip(min=padding or 0), sequences
        )

    def __len__(self) -> int:
        return len(self._rows)

    def batch(
        self,
        rows: Sequence[int],
        *,
        outputs: Sequence[Sequence[int]] | None = None,
        epoch: Sequence[int] | None = None,
        padding: int | None = None,
    ) -> Batch:
        """Returns some examples as a batch, whose least length is `padding`, or that of the split's batches.

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
        length = self._padding if padding is None else padding
        batch = self._architecture.collate(encoded, self._type.level, length=length)
        return replace(batch, rows=list(rows), inputs=_Inputs(self, list(rows), self._input_names))

    def _encoded(self, chosen: Int[ndarray, " chosen"], epoch: Sequence[int] | None) -> Encoded:
        """Returns some rows as their task type encoded them; pieces begin elsewhere in every epoch."""
        if self._packed is not None:
            length = self._packed.length
            offset = 0 if epoch is None else int(np.random.default_rng([3, *epoch]).integers(length))
            pieces, before = self._packed.take(chosen, offset)
            return Encoded(output=pieces, start=before, complete=False)
        columns = {name: column.take(chosen) for name, column in self._columns.items()}
        if self._inference and "output" in columns:  # a prompt
            columns["start"] = Ragged.repeated(BEGIN, len(chosen)).followed_by(columns.pop("output"))
        targets: Any = self._targets
        if targets is not None:
            targets = targets.take(chosen) if isinstance(targets, TokenColumn) else targets[chosen]
        return Encoded(columns.get("input"), columns.get("output"), targets, columns.get("start"))

    def example(self, row: int) -> Example:
        """Returns the values of an example by column, a label by its name; none for a piece."""
        example: Example = {} if self._packed is not None else self._examples[int(self._rows[row])]
        return example

    def input(self, row: int) -> str:
        """Returns the input of an example as text."""
        example = self.example(row)
        if not example:
            return f"piece {row + 1}"
        return "\t".join(as_text(example[name]) for name in self._input_names or list(example)[:1])

    def references(self, row: int) -> list[Any]:
        """Returns the right answers to an example: texts, labels, tags or numbers."""
        example = self.example(row)
        if not example:
            return [""]
        references: list[Any] = self._type.references(example)
        if isinstance(self._targets, TokenColumn) and isinstance(references[0], list):
            kept = int(self._targets.take(self._rows[[row]]).present.sum())  # tags are cut with their words
            references = [list(tags)[:kept] for tags in references]
        return references

    def units(
        self, unit: Literal["characters", "bytes"], targets: Int[ndarray, " examples"]
    ) -> Float[ndarray, " examples"]:
        """Returns the number of characters or bytes of each example's output texts within the limits.

        Pieces share those of all texts in proportion to their numbers of `targets`.
        """

        def size(text: str) -> int:
            return len(text if unit == "characters" else text.encode())

        texts = [column for column in self._type.columns if column.holds == "text"]
        if self._packed is not None:
            total = sum(size(example[column.name]) for example in self._examples for column in texts)
            shares: Float[ndarray, " examples"] = targets * (total / targets.sum())
            return shares
        counted = [column for column in texts if column.role == "output"] or texts
        sizes = np.array(
            [sum(size(self.example(row)[column.name]) for column in counted) for row in range(len(self))],
            float,
        )
        if (column := self._columns.get("output")) is None:
            return sizes
        kept = column.lengths.clip(min=1) / column.whole.clip(min=1)
        within: Float[ndarray, " examples"] = sizes * kept[self._rows]
        return within


class _Inputs(Sequence[Example]):
    """Some columns of some examples of a split, read when they are asked for."""

    def __init__(self, split: EncodedSplit, rows: Sequence[int], names: Sequence[str]) -> None:
        self._split = split
        self._rows = rows
        self._names = names

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return _Inputs(self._split, self._rows[place], self._names)
        example = self._split.example(self._rows[place])
        return {name: value for name, value in example.items() if name in self._names}
