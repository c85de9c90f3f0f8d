"""Balanced brackets: texts whose structure a language model has to find."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.interfaces import Column, Data, require_one_text

if TYPE_CHECKING:
    from datasets import DatasetDict

PAIRS = ("()", "[]", "{}", "<>")

OPENED = 0.4
"""Probability that a further bracket is opened where one could also be closed."""

ENDED = 0.5
"""Probability that a text ends where all brackets are closed."""


class Brackets(Data):
    """Brackets of several kinds, each closed by its own, such as "([]{})()".

    The language Dyck-(k, m) of Hewitt et al. 2020, section 3: https://arxiv.org/abs/2010.07515. All splits
    are drawn alike, short texts occurring in several: a perplexity can be compared with the generator's own.

    Args:
        size: Number of training texts.
        held_out: Number of validation texts, and of test texts.
        kinds: How many kinds of brackets there are.
        depth: How many brackets may be open at a time.
        seed: Of the generator; the same seed gives the same texts.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=1, le=10**6)] = 20_000,
        held_out: Annotated[int, Field(ge=1, le=10**6)] = 500,
        kinds: Annotated[int, Field(ge=1, le=len(PAIRS))] = 3,
        depth: Annotated[int, Field(ge=1, le=100)] = 4,
        seed: int = 1,
    ) -> None:
        self._sizes = {"train": size, "validation": held_out, "test": held_out}
        self._pairs = PAIRS[:kinds]
        self._depth = depth
        self._seed = seed

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuses more than a text."""
        require_one_text("brackets", columns)

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns train, validation and test.

        Raises:
            ConfigurationError: The task asks for more than a text.
        """
        from datasets import Dataset, DatasetDict

        text = require_one_text("brackets", columns)
        draw = random.Random(self._seed)  # noqa: S311 (examples, not secrets)
        return DatasetDict(
            {
                name: Dataset.from_dict({text.name: [self._text(draw) for _ in range(size)]})
                for name, size in self._sizes.items()
            }
        )

    def _text(self, draw: random.Random) -> str:
        text, closing = "", ""
        while not text or closing or draw.random() >= ENDED:
            if not closing or (len(closing) < self._depth and draw.random() < OPENED):
                pair = draw.choice(self._pairs)
                text += pair[0]
                closing += pair[1]
            else:
                text += closing[-1]
                closing = closing[:-1]
        return text
