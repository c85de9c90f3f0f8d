"""Sentences with the names of people and places, some of which are names of both."""

import random
from itertools import islice
from typing import Annotated

from pydantic import Field

from plugformer_tasks.generated import GeneratedData

BOTH = ("Austin", "Chelsea", "Florence", "Georgia", "Jordan", "Paris", "Sydney", "Victoria")
FIRST = (*BOTH, "Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Ida", "James")
LAST = (
    *("Darwin", "Hamilton", "Houston", "London", "Miller", "Smith", "Taylor", "Walker", "Wellington"),
    "Young",
)
PLACES = (
    *(*BOTH, *LAST[:4], "Wellington", "Berlin", "Oslo", "Rome", "Tokyo", "Cape Town", "Hong Kong"),
    *("New York", "Port Victoria", "San Jose"),
)
FRAMES = (
    "PERSON lives in PLACE .",
    "PERSON met PERSON in PLACE .",
    "PERSON moved from PLACE to PLACE last year .",
    "PERSON and PERSON have never seen PLACE .",
    "PERSON wrote a long letter to PERSON .",
    "PERSON is tired .",
    "PERSON was born near PLACE , not in PLACE .",
    "PLACE is far away .",
    "PLACE and PLACE are large cities .",
    "PLACE was founded long ago .",
    "the train to PLACE was late , said PERSON .",
    "the mayor of PLACE met PERSON .",
    "the roads between PLACE and PLACE are old .",
    "the sister of PERSON lives in PLACE .",
    "nobody in PLACE remembers PERSON .",
    "nobody was late .",
)
"""The context of a name decides its kind: words before or after it, near or far."""


class Names(GeneratedData):
    """Tagged sentences with names of people and places; some names belong to both.

    Sentences such as "Paris Miller met Jordan in Florence .", with a tag for each word, by IOB2.

    Entities are PER and LOC. Every split has sentences of its own, none twice.

    Args:
        size: Number of training sentences.
        held_out: Number of validation sentences, and of test sentences.
        seed: Of the generator; the same seed gives the same sentences.
    """

    offered = ("words", "tags")

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=1, le=50_000)] = 2_000,
        held_out: Annotated[int, Field(ge=1, le=10_000)] = 500,
        seed: int = 1,
    ) -> None:
        self._sizes = {"train": size, "validation": held_out, "test": held_out}
        self._seed = seed

    def splits(self) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
        """Returns train, validation and test."""
        draw = random.Random(self._seed)  # noqa: S311 (examples, not secrets)
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
        while len(found) < sum(self._sizes.values()):
            found[_sentence(draw)] = None
        tagged = list(found)
        draw.shuffle(tagged)  # there are few short ones, which would come first
        sentences = iter(tagged)
        return {name: list(islice(sentences, size)) for name, size in self._sizes.items()}


def _sentence(draw: random.Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the words of a sentence, and the tag of each."""
    tagged = [pair for word in draw.choice(FRAMES).split() for pair in _filled(word, draw)]
    words, tags = zip(*tagged, strict=True)
    return words, tags


def _filled(word: str, draw: random.Random) -> list[tuple[str, str]]:
    """Returns the words that stand for a word of a frame, with their tags."""
    if word == "PERSON":
        names, kind = [draw.choice(FIRST)], "PER"
        if draw.random() < 0.5:
            names.append(draw.choice(LAST))
    elif word == "PLACE":
        names, kind = draw.choice(PLACES).split(), "LOC"
    else:
        return [(word, "O")]
    return [(name, f"{'I' if place else 'B'}-{kind}") for place, name in enumerate(names)]
