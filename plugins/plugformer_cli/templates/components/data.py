"""Random sequences of digits to be reversed."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.interfaces import Column, Data

if TYPE_CHECKING:
    from datasets import DatasetDict


class NewComponent(Data):
    """Digits with their reversal, for example "3 1 2" and "2 1 3".

    Other ways to make a data set: https://huggingface.co/docs/datasets/create_dataset.

    Args:
        size: Number of training examples; validation and test have a tenth of it each.
    """

    offered = ("source", "target")

    def __init__(self, *, size: Annotated[int, Field(ge=10)] = 1000) -> None:
        self.size = size

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns train, validation and test; the same at each call."""
        from datasets import Dataset, DatasetDict  # slow to import

        self.check_columns(columns)
        draw = random.Random(1)
        splits = {}
        for name, share in {"train": 1, "validation": 10, "test": 10}.items():
            rows = [draw.choices("123456789", k=draw.randint(2, 6)) for _ in range(self.size // share)]
            source, target = [" ".join(row) for row in rows], [" ".join(row[::-1]) for row in rows]
            splits[name] = Dataset.from_dict({"source": source, "target": target})
        return DatasetDict(splits)
