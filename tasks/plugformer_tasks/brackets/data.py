"""Balanced brackets: texts whose structure a language model has to find."""

import random
from typing import Annotated

from pydantic import Field

from plugformer_tasks.generated import GeneratedData

PAIRS = ("()", "[]", "{}", "<>")

OPENED = 0.4  # probability that a further bracket is opened where one could also be closed
ENDED = 0.5  # probability that a text ends where all brackets are closed


class Brackets(GeneratedData):
    """Balanced brackets of several kinds, nested to a depth.

    Brackets of several kinds, each closed by its own, such as "([]{})()".

    The language Dyck-(k, m) of Hewitt et al. 2020, section 3: https://arxiv.org/abs/2010.07515. All splits
    are drawn alike, short texts occurring in several: a perplexity can be compared with the generator's own.

    Args:
        size: Number of training texts.
        held_out: Number of validation texts, and of test texts.
        kinds: How many kinds of brackets there are.
        depth: How many brackets may be open at a time.
        seed: Of the generator; the same seed gives the same texts.
    """

    offered = ("text",)

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

    def splits(self) -> dict[str, list[tuple[str]]]:
        """Returns train, validation and test."""
        draw = random.Random(self._seed)  # noqa: S311 (examples, not secrets)
        return {name: [(self._text(draw),) for _ in range(size)] for name, size in self._sizes.items()}

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
