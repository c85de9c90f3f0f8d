"""Generators of probes: words, and the answer to each "?". One option of each is its axis of difficulty."""

import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, Data
from probes.task import ASKED

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict

Positive = Annotated[int, Field(ge=1)]
Symbols = Annotated[int, Field(ge=2)]
Probed = tuple[list[str], list[str]]
"""Words of an example, and its answers."""


@dataclass(kw_only=True)
class ProbeData(Data):
    """Examples of a generator that never ends; a subclass draws one.

    The splits have generators of their own. With `data.streaming` no training example is drawn twice.

    Args:
        size: Number of training examples, if they are not streamed.
        held_out: Number of validation examples, and of test examples.
        seed: Of the generators; the same seed gives the same examples.
    """

    offered = ("words", "answers")
    size: Positive = 50_000
    held_out: Positive = 1_000
    seed: int = 1

    @abstractmethod
    def example(self, draw: random.Random) -> Probed:
        """Returns an example."""

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits."""
        from datasets import Dataset, DatasetDict

        self.check_columns(columns)
        sizes = {"train": self.size, "validation": self.held_out, "test": self.held_out}
        return DatasetDict(
            {split: Dataset.from_list(list(self._rows(split, count))) for split, count in sizes.items()}
        )

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits; the one for training has no end."""
        from datasets import IterableDataset, IterableDatasetDict

        loaded = self.load(columns)
        streams = {name: split.to_iterable_dataset() for name, split in loaded.items()}
        streams["train"] = IterableDataset.from_generator(
            partial(self._rows, "train"), features=loaded["train"].features
        )
        return IterableDatasetDict(streams)

    def _rows(self, split: str, count: int | None = None) -> Iterator[dict[str, list[str]]]:
        draw = random.Random(f"{self.seed} {split}")  # noqa: S311 (examples, not secrets)
        while count is None or count > 0:
            words, answers = self.example(draw)
            yield {"words": words, "answers": answers}
            count = None if count is None else count - 1


def numbered(letter: str, count: int) -> list[str]:
    """Returns the words of one kind, such as k0, k1, k2."""
    return [f"{letter}{number}" for number in range(count)]


@dataclass(kw_only=True)
class Recall(ProbeData):
    """Keys with their values, then some of the keys: what was the value?

    Multi-query associative recall, Arora et al. 2023, Zoology, section 4: https://arxiv.org/abs/2312.04927.

    Args:
        pairs: Number of keys with values: the axis of difficulty.
        queries: Number of keys that are asked for, at most `pairs`; all of them if None.
        keys: Number of different keys; 32 or twice `pairs` if None.
        values: Number of different values.

    Raises:
        ConfigurationError: More pairs than keys, or more queries than pairs.
    """

    pairs: Positive = 8
    queries: Positive | None = None
    keys: Symbols | None = None
    values: Symbols = 32

    def __post_init__(self) -> None:
        keys, queries = self.keys or max(32, 2 * self.pairs), self.queries or self.pairs
        if not queries <= self.pairs <= keys:
            raise ConfigurationError(
                f"{queries} queries of {self.pairs} pairs of {keys} keys: expected no more "
                "of one than of the next"
            )
        self._keys, self._values = numbered("k", keys), numbered("v", self.values)

    def example(self, draw: random.Random) -> Probed:
        """Returns pairs, and keys each followed by "?"."""
        keys = draw.sample(self._keys, self.pairs)
        pairs = {key: draw.choice(self._values) for key in keys}
        asked = draw.sample(keys, self.queries or self.pairs)
        words = self.written(pairs, draw) + [word for key in asked for word in (key, ASKED)]
        return words, [pairs[key] for key in asked]

    def written(self, pairs: dict[str, str], draw: random.Random) -> list[str]:
        """Returns the words of the pairs."""
        return [word for pair in pairs.items() for word in pair]


@dataclass(kw_only=True)
class NoisyRecall(Recall):
    """Recall with words between the pairs that mean nothing.

    Noisy in-context recall, Poli et al. 2024, Mechanistic Architecture Design, section 3.1:
    https://arxiv.org/abs/2403.17844.

    Args:
        noise: Number of these words for each pair, at random places between pairs.
    """

    noise: Positive = 2

    def written(self, pairs: dict[str, str], draw: random.Random) -> list[str]:
        """Returns the words of the pairs, and noise between them."""
        parts = [list(pair) for pair in pairs.items()]
        parts += [[draw.choice(_NOISE)] for _ in range(self.noise * len(parts))]
        draw.shuffle(parts)
        return [word for part in parts for word in part]


_NOISE = numbered("n", 16)


@dataclass(kw_only=True)
class FuzzyRecall(ProbeData):
    """Recall where a key is several words, which other keys have, too.

    Fuzzy in-context recall, Poli et al. 2024, section 3.1: https://arxiv.org/abs/2403.17844. Keys are as long
    as one another here, and a value is one word.

    Args:
        pairs: Number of keys with values: the axis of difficulty.
        queries: Number of keys that are asked for, at most `pairs`; all of them if None.
        key_words: Words of a key.
        symbols: Number of different words in keys.
        values: Number of different values.

    Raises:
        ConfigurationError: There are not as many keys as pairs, or more queries than pairs.
    """

    pairs: Positive = 8
    queries: Positive | None = None
    key_words: Positive = 2
    symbols: Symbols = 16
    values: Symbols = 32

    def __post_init__(self) -> None:
        queries = self.queries or self.pairs
        if not queries <= self.pairs <= self.symbols**self.key_words:
            raise ConfigurationError(
                f"{queries} queries of {self.pairs} pairs of {self.symbols**self.key_words} keys: "
                "expected no more of one than of the next"
            )
        self._symbols, self._values = numbered("k", self.symbols), numbered("v", self.values)

    def example(self, draw: random.Random) -> Probed:
        """Returns pairs, and keys each followed by "?"."""
        pairs: dict[tuple[str, ...], str] = {}
        while len(pairs) < self.pairs:
            pairs[tuple(draw.choices(self._symbols, k=self.key_words))] = draw.choice(self._values)
        asked = draw.sample(list(pairs), self.queries or self.pairs)
        words = [word for key, value in pairs.items() for word in (*key, value)]
        return words + [word for key in asked for word in (*key, ASKED)], [pairs[key] for key in asked]


@dataclass(kw_only=True)
class SelectiveCopying(ProbeData):
    """A few words among blanks, to be repeated in their order.

    Gu and Dao 2023, Mamba, section 4.1.1: https://arxiv.org/abs/2312.00752.

    Args:
        tokens: Number of words to copy: the axis of difficulty.
        room: Number of places, most of them blank.
        symbols: Number of different words.

    Raises:
        ConfigurationError: More words than places.
    """

    tokens: Positive = 4
    room: Positive = 32
    symbols: Symbols = 16

    def __post_init__(self) -> None:
        if self.tokens > self.room:
            raise ConfigurationError(f"{self.tokens} tokens have no room in a room of {self.room}")

    def example(self, draw: random.Random) -> Probed:
        """Returns words among blanks, then "next ?" for each."""
        words = ["."] * self.room
        places = sorted(draw.sample(range(self.room), self.tokens))
        copied = draw.choices(numbered("s", self.symbols), k=self.tokens)
        for place, word in zip(places, copied, strict=True):
            words[place] = word
        return words + ["next", ASKED] * self.tokens, copied


@dataclass(kw_only=True)
class Compression(ProbeData):
    """Random words, to be repeated from one hidden state, with the architecture `bottleneck-reader`.

    Poli et al. 2024, section 3.1: https://arxiv.org/abs/2403.17844.

    Args:
        tokens: Number of words: the axis of difficulty.
        symbols: Number of different words.
    """

    tokens: Positive = 8
    symbols: Symbols = 16

    def example(self, draw: random.Random) -> Probed:
        """Returns random words, then "next ?" for each."""
        words = draw.choices(numbered("s", self.symbols), k=self.tokens)
        return words + ["next", ASKED] * self.tokens, words


@dataclass(kw_only=True)
class Induction(ProbeData):
    """Random words, one of them marked: which word followed the mark?

    Fu et al. 2023, Hungry Hungry Hippos, section 3.1: https://arxiv.org/abs/2212.14052.

    Args:
        words: Number of words: the axis of difficulty.
        symbols: Number of different words.
    """

    words: Positive = 32
    symbols: Symbols = 16

    def example(self, draw: random.Random) -> Probed:
        """Returns random words with one mark, then the mark and "?"."""
        words = draw.choices(numbered("s", self.symbols), k=self.words)
        place = draw.randrange(self.words)
        return [*words[:place], "mark", *words[place:], "mark", ASKED], [words[place]]


@dataclass(kw_only=True)
class Hops(ProbeData):
    """A cycle as shuffled arrows: where does one arrive after some steps?

    Depo, Allen-Zhu 2025, Physics of Language Models, part 4.1: https://arxiv.org/abs/2512.17351. Examples ask
    for one step, for the most steps, and for numbers between. A stop follows each arrow here, so that a node
    tells at which end it stands.

    Args:
        nodes: Number of nodes of the cycle.
        names: Number of names that nodes may have, at least `nodes`.
        hops: The most steps: the axis of difficulty.
        queries: Number of questions, with random numbers of steps, the last with the most.

    Raises:
        ConfigurationError: As many steps as nodes, which lead back; or more nodes than names.
    """

    nodes: Annotated[int, Field(ge=2)] = 8
    names: Annotated[int, Field(ge=2)] = 32
    hops: Positive = 2
    queries: Positive = 8

    def __post_init__(self) -> None:
        if self.hops >= self.nodes:
            raise ConfigurationError(f"{self.hops} hops lead around {self.nodes} nodes; expected fewer")
        if self.nodes > self.names:
            raise ConfigurationError(f"{self.nodes} nodes have {self.names} names; expected no more nodes")

    def example(self, draw: random.Random) -> Probed:
        """Returns arrows, and questions: number of steps, first node, "?"."""
        cycle = draw.sample(numbered("x", self.names), self.nodes)
        places = draw.sample(range(self.nodes), self.nodes)
        words = [word for place in places for word in (cycle[place - 1], cycle[place], ".")]
        answers = []
        for number in reversed(range(self.queries)):
            hops = draw.randint(1, self.hops) if number else self.hops
            start = draw.randrange(self.nodes)
            words += [f"h{hops}", cycle[start], ASKED]
            answers.append(cycle[(start + hops) % self.nodes])
        return words, answers


@dataclass(kw_only=True)
class Arithmetic(ProbeData):
    """An expression in prefix notation, modulo a prime: what is its value?

    Mano, Allen-Zhu 2025, Physics of Language Models, part 4.1: https://arxiv.org/abs/2512.17351.

    Args:
        operations: Number of operations: the axis of difficulty.
        modulus: The numbers are 0 to `modulus` - 1.
    """

    operations: Positive = 2
    modulus: Annotated[int, Field(ge=2)] = 23

    def example(self, draw: random.Random) -> Probed:
        """Returns an expression of random shape and "?"."""
        words, value = self._expression(draw, self.operations)
        return [*words, ASKED], [str(value)]

    def _expression(self, draw: random.Random, operations: int) -> tuple[list[str], int]:
        if not operations:
            number = draw.randrange(self.modulus)
            return [str(number)], number
        left = draw.randrange(operations)
        first, a = self._expression(draw, left)
        second, b = self._expression(draw, operations - 1 - left)
        sign = draw.choice("+-*")
        value = a + b if sign == "+" else a - b if sign == "-" else a * b
        return [sign, *first, *second], value % self.modulus


@dataclass(kw_only=True)
class Grammar(ProbeData):
    """A sentence of a context-free grammar: from which start symbol does it come?

    The random hierarchy model, Cagnetta et al. 2024: https://arxiv.org/abs/2307.02129. At each level a symbol
    becomes one of several pairs of symbols of the next, and no pair comes from two symbols, so that
    a sentence of 2^depth words has one derivation. The seed decides the grammar.

    Args:
        depth: Number of levels: the axis of difficulty.
        symbols: Number of different symbols of a level; each becomes as many pairs.
    """

    depth: Annotated[int, Field(ge=1, le=12)] = 4
    symbols: Annotated[int, Field(ge=2, le=100)] = 4

    @cached_property
    def _rules(self) -> list[list[list[tuple[int, int]]]]:
        """The pairs of each symbol of each level."""
        draw = random.Random(self.seed)  # noqa: S311 (examples, not secrets)
        count, levels = self.symbols, []
        for _ in range(self.depth):
            pairs = [(a, b) for a in range(count) for b in range(count)]
            draw.shuffle(pairs)
            levels.append([pairs[start::count] for start in range(count)])
        return levels

    def example(self, draw: random.Random) -> Probed:
        """Returns a sentence and "?"."""
        start = draw.randrange(self.symbols)
        symbols = [start]
        for rules in self._rules:
            symbols = [found for symbol in symbols for found in draw.choice(rules[symbol])]
        return [*(f"s{symbol}" for symbol in symbols), ASKED], [f"r{start}"]


@dataclass(kw_only=True)
class Capacity(ProbeData):
    """Facts that can only be learned by heart: validation and test ask for the same facts as training.

    A training split with three examples for each fact has 95 % of the facts.

    Allen-Zhu and Li 2024, Physics of Language Models, part 3.3: https://arxiv.org/abs/2404.05405. The seed
    decides the facts. A model that answers all of them has stored log2(values) bits for each.

    Args:
        facts: Number of facts, each a name of two words and its value: the axis of difficulty.
        values: Number of different values.
    """

    facts: Annotated[int, Field(ge=2, le=10**7)] = 1_000
    values: Symbols = 64

    @cached_property
    def _facts(self) -> list[tuple[str, str, str]]:
        draw = random.Random(self.seed)  # noqa: S311 (examples, not secrets)
        side = 2 * int(self.facts**0.5) + 1
        names = draw.sample(range(side * side), self.facts)
        return [(f"a{name // side}", f"b{name % side}", f"v{draw.randrange(self.values)}") for name in names]

    def example(self, draw: random.Random) -> Probed:
        """Returns the name of a fact and "?"."""
        first, second, value = draw.choice(self._facts)
        return [first, second, ASKED], [value]
