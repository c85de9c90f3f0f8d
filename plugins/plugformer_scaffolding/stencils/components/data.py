"""Random sequences of numbers to be reversed."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.interfaces import Column, Data, require_columns

if TYPE_CHECKING:
    from datasets import DatasetDict


class NewComponent(Data):
    """Numbers from 1 to 9 such as "3 1 2", and the same backwards: "2 1 3".

    Other ways to make a data set: https://huggingface.co/docs/datasets/create_dataset.

    Args:
        size: Number of training examples; a tenth of it, at least one, is made for validation and for test.
        seed: Of the generator; the same seed gives the same examples.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=1)] = 1000,
        seed: int = 1,
    ) -> None:
        self.size = size
        self.seed = seed

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuses columns other than source and target."""
        require_columns("new_component", ("source", "target"), columns)

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns train, validation and test.

        Raises:
            ConfigurationError: The task has other columns.
        """
        from datasets import Dataset, DatasetDict  # slow to import, needed only here

        self.check_columns(columns)
        draw = random.Random(self.seed)  # noqa: S311 (examples, not secrets)
        held_out = max(1, self.size // 10)
        splits = {}
        for name, count in {"train": self.size, "validation": held_out, "test": held_out}.items():
            rows = [draw.choices("123456789", k=draw.randint(2, 6)) for _ in range(count)]
            source, target = [" ".join(row) for row in rows], [" ".join(row[::-1]) for row in rows]
            splits[name] = Dataset.from_dict({"source": source, "target": target})
        return DatasetDict(splits)
