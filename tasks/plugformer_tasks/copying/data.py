"""Random sequences of numbers, to be copied."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from pydantic import Field

from plugformer.errors import ConfigurationError
from plugformer_tasks.generated import GeneratedData

_Length = Annotated[int, Field(ge=1, le=10**5)]  # all sequences are in memory at once, as text


class Copying(GeneratedData):
    """Random sequences of numbers to copy; the held-out sequences are distinct.

    Numbers separated by spaces, such as "3 10 7"; the target is the source.

    Validation and test sequences are distinct and never occur in training; training sequences may repeat.

    Args:
        size: Number of training sequences.
        held_out: Number of validation sequences, and of test sequences.
        numbers: How many numbers the longest sequence has.
        min_numbers: How many the shortest has; `numbers` if None. Lengths are drawn uniformly.
        symbols: The numbers are 1 to `symbols`.
        seed: Of the generator; the same seed gives the same sequences.

    Raises:
        ConfigurationError: `min_numbers` exceeds `numbers`, or there are too few different sequences to hold
            that many out.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=1, le=10**8)] = 20_000,
        held_out: Annotated[int, Field(ge=1, le=10**8)] = 1_000,
        numbers: _Length = 10,
        min_numbers: _Length | None = None,
        symbols: Annotated[int, Field(ge=2, le=10**6)] = 10,
        seed: int = 1,
    ) -> None:
        self._size = size
        self._held_out = held_out
        self._lengths = range(numbers if min_numbers is None else min_numbers, numbers + 1)
        self._symbols = symbols
        self._seed = seed
        if not self._lengths:
            raise ConfigurationError(
                f"data 'copying': min_numbers: {min_numbers} exceeds numbers: {numbers}; lower it"
            )
        different = sum(symbols ** min(count, 64) for count in self._lengths)  # 2**64 are enough for all
        if different < 4 * held_out:  # at least half of them remain for training
            raise ConfigurationError(
                f"data 'copying': held_out: {held_out} is too many: 1 to {symbols} make only {different} "
                f"different sequences of this length; hold out at most {different // 4}, or raise numbers"
            )

    def splits(self) -> dict[str, list[tuple[str, str]]]:
        """Returns train, validation and test."""
        sequences = self._sequences()
        held_out: dict[str, None] = {}
        while len(held_out) < 2 * self._held_out:
            held_out[next(sequences)] = None
        texts = list(held_out)
        train = list(islice((text for text in sequences if text not in held_out), self._size))
        parts = {"train": train, "validation": texts[: self._held_out], "test": texts[self._held_out :]}
        return {name: [(text, text) for text in part] for name, part in parts.items()}

    def _sequences(self) -> Iterator[str]:
        """Yields random sequences without end."""
        draw = random.Random(self._seed)  # noqa: S311 (examples, not secrets)
        numbers = [str(number) for number in range(1, self._symbols + 1)]
        while True:
            yield " ".join(draw.choices(numbers, k=draw.choice(self._lengths)))
