"""Strings to copy or reverse, and numbers to add, shorter in training than in the tests."""

import random
import string
from collections.abc import Sequence
from typing import Annotated, Literal

from datasets import Dataset, DatasetDict
from pydantic import Field

from plugformer.interfaces import Column, Data

_Length = Annotated[int, Field(ge=1, le=10_000)]


class Lengths(Data):
    """Strings and what becomes of them, after section 4 of https://arxiv.org/abs/2305.19466.

    The splits are `train`, `validation` and `test`, whose lengths are 1 to `longest`, and `test_longer`, with
    the lengths above, up to `much_longer`. A length is drawn first, each as often as any other. That of a sum
    is the number of digits of the longer summand.

    Sums in reverse are easier to learn, as a carry is known before it is needed: all numbers begin with their
    last digit, as in https://arxiv.org/abs/2402.09371, and zeros make the summands as long as each other and
    the sum one digit longer.

    Args:
        operation: `copy` or `reverse` letters, `add` two numbers, or `add_reversed`.
        longest: The greatest length in training.
        much_longer: The greatest length in `test_longer`.
        size: Number of training examples; few enough short ones exist for them to repeat.
        held_out: Number of examples in each other split.
        seed: Of the generator; the same seed gives the same examples.
    """

    offered = ("source", "target")

    def __init__(
        self,
        *,
        operation: Literal["copy", "reverse", "add", "add_reversed"] = "copy",
        longest: _Length = 20,
        much_longer: _Length = 30,
        size: Annotated[int, Field(ge=1)] = 100_000,
        held_out: Annotated[int, Field(ge=1)] = 1_000,
        seed: int = 1,
    ) -> None:
        self._operation = operation
        short, long = range(1, longest + 1), range(longest + 1, much_longer + 1)
        self._lengths = {"train": short, "validation": short, "test": short, "test_longer": long}
        self._sizes = {"train": size, "validation": held_out, "test": held_out, "test_longer": held_out}
        self._seed = seed

    def load(self, columns: Sequence[Column]) -> DatasetDict:
        """Returns the splits."""
        self.check_columns(columns)
        draw = random.Random(self._seed)  # noqa: S311 (examples, not secrets)
        splits = {}
        for name, lengths in self._lengths.items():
            rows = [self._example(draw, draw.choice(lengths)) for _ in range(self._sizes[name])]
            splits[name] = Dataset.from_list(rows)
        return DatasetDict(splits)

    def _example(self, draw: random.Random, length: int) -> dict[str, str]:
        if self._operation in ("add", "add_reversed"):
            longer = draw.randrange(10 ** (length - 1), 10**length)
            other = draw.randrange(10 ** draw.randint(1, length))
            first, second = draw.sample((longer, other), 2)
            if self._operation == "add":
                return {"source": f"{first}+{second}", "target": str(first + second)}
            return {
                "source": f"{_reversed(first, length)}+{_reversed(second, length)}",
                "target": _reversed(first + second, length + 1),
            }
        letters = "".join(draw.choices(string.ascii_lowercase, k=length))
        return {"source": letters, "target": letters if self._operation == "copy" else letters[::-1]}


def _reversed(number: int, length: int) -> str:
    return f"{number:0{length}}"[::-1]
