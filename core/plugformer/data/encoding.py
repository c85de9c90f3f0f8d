"""Numbered examples: texts, their token numbers and lengths, and batches made of them."""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset, Features, Value
from datasets import List as ListOf
from jaxtyping import Int
from numpy import ndarray

from plugformer.data.batches import Batch, Side, collate_labelled, collate_pairs
from plugformer.data.columns import TokenColumn
from plugformer.interfaces.data import TaskType
from plugformer.interfaces.tokenizer import Tokenizer

SPECIALS = {"source": 1, "target": 2, "text": 2}
"""Special tokens that a batch adds: END behind everything, BEGIN before targets and classified texts."""


TOKENS = ListOf(Value("int32"))
"""Arrow type of token numbers."""


class EncodedSplit:
    """The examples of one split, as numbers and as text.

    Args:
        data: Texts, and for each text column `<column>_tokens`, the token numbers without special ones.
        task_type: Names the columns.
        rows: Rows of `data` that belong to the split, after dropping by length; all if None.
        limits: Columns whose token numbers are cut to so many; the others stay whole.
        padding: Length that every batch is padded to at least; None for that of its longest example.

    Attributes:
        lengths: Tokens of each example's source and target (or text) in a batch, special tokens and fixed
            padding included; a batch's positions follow from them.
    """

    def __init__(
        self,
        data: Dataset,
        task_type: TaskType,
        *,
        rows: Int[ndarray, " rows"] | None = None,
        limits: Mapping[str, int] | None = None,
        padding: int | None = None,
    ) -> None:
        self._type = task_type
        self._rows = np.arange(len(data)) if rows is None else rows
        self._padding = padding
        self._columns = token_columns(data, task_type, limits or {})
        self._labels = np.asarray(data.with_format("arrow")[:].column("label")) if _labelled(data) else None
        self._texts = data.remove_columns([f"{column}_tokens" for column in self._columns])
        sides = [column.lengths[self._rows] + SPECIALS[name] for name, column in self._columns.items()]
        self.lengths: Int[ndarray, "examples sides"] = np.stack(sides, axis=1).clip(min=padding or 0)

    @classmethod
    def of_texts(cls, texts: Sequence[str], tokenizer: Tokenizer, task_type: TaskType) -> "EncodedSplit":
        """Returns texts to be answered: examples without targets or labels."""
        return cls.of_tokens(texts, tokenizer.encode(texts), task_type)

    @classmethod
    def of_tokens(
        cls, texts: Sequence[str], tokens: Sequence[Sequence[int]], task_type: TaskType
    ) -> "EncodedSplit":
        """Returns texts to be answered whose token numbers are known."""
        column = task_type.columns[0]
        features = Features({column: Value("string"), f"{column}_tokens": TOKENS})
        return cls(Dataset.from_dict({column: list(texts), f"{column}_tokens": tokens}, features), task_type)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: Sequence[int], side: Side = "right") -> Batch:
        """Returns some examples as a batch.

        Args:
            rows: Their numbers in the split.
            side: Where shorter examples are padded.
        """
        chosen = self._rows[np.asarray(rows, dtype=np.int64)]
        tokens = {name: column.take(chosen) for name, column in self._columns.items()}
        if self._type is TaskType.SEQUENCE_TO_SEQUENCE:
            return collate_pairs(**tokens, rows=rows, side=side, length=self._padding)
        labels = None if self._labels is None else self._labels[chosen]
        return collate_labelled(tokens["text"], labels, rows, side=side, length=self._padding)

    def input(self, row: int) -> str:
        """Returns the source or text of an example."""
        text: str = self._texts[int(self._rows[row])][self._type.columns[0]]
        return text

    def references(self, row: int) -> list[str]:
        """Returns the right answers to an example: one or more targets, or the name of its label."""
        example = self._texts[int(self._rows[row])]
        if self._type is TaskType.CLASSIFICATION:
            return [self._texts.features["label"].int2str(example["label"])]
        return example.get("references") or [example["target"]]

    def described(self, row: int) -> str:
        """Returns an example for people: the input and the right answer, the beginning of each."""
        return " -> ".join(repr(_shortened(text)) for text in (self.input(row), self.references(row)[0]))


def _shortened(text: str, length: int = 60) -> str:
    """Returns a text's beginning."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def token_columns(data: Dataset, task_type: TaskType, limits: Mapping[str, int]) -> dict[str, TokenColumn]:
    """Returns the token numbers of the columns that have them, by the name of the text's column."""
    table = data.with_format("arrow")[:]
    return {
        column: TokenColumn(table.column(f"{column}_tokens"), limits.get(column, sys.maxsize))
        for column in task_type.columns
        if f"{column}_tokens" in table.column_names
    }


def _labelled(data: Dataset) -> bool:
    return "label" in data.column_names
