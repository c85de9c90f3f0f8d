"""Tagging: a tag for each word of a text."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import (
    UNKNOWN,
    Batch,
    Column,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)
from plugformer_plugins.task_type.labels import learned_names, number_of, refuse_alternatives

if TYPE_CHECKING:
    from datasets import Dataset


class Tagging(TaskType):
    """Labels words, such as with parts of speech or the names of entities.

    A word's tag is predicted from its first token: Devlin et al. 2019, section 5.3,
    https://arxiv.org/abs/1810.04805. Words and tags of too long a text are cut together.
    """

    level = Level.TOKEN
    output_type = OutputType.TAGS
    columns = (
        Column("words", "words", "input", tokenizer="source"),
        Column("tags", "tags", "output", along="words"),
    )
    state_type = list[str]

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the tags, sorted."""
        return learned_names(chain.from_iterable(train["tags"]), "tags")

    @property
    def outputs(self) -> int:
        """Number of tags."""
        return len(self.state)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the words, and the number of a tag at each word's first one.

        Raises:
            ExampleError: A tag is none of the training examples'.
        """
        different = list(dict.fromkeys(chain.from_iterable(examples["words"])))
        cut = dict(zip(different, tokenizers.source.encode_words(different), strict=True))
        words = [[cut[word] or [UNKNOWN] for word in each] for each in examples["words"]]
        numbers = [[0] * len(each) for each in words]
        if "tags" in examples:
            numbers = [
                [number_of(tag, self.state, row, "tag") for tag in tags]
                for row, tags in enumerate(examples["tags"])
            ]
        return {
            "input": [list(chain.from_iterable(each)) for each in words],
            "targets": [list(_at_first(*each)) for each in zip(words, numbers, strict=True)],
        }

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the tags of each text."""
        refuse_alternatives(n_best, "tags have")
        best, (_, real) = model.best(batch), model.targets(batch)
        return [
            Prediction([self.state[tag] for tag in tags[words].tolist()], score)
            for tags, words, score in zip(best.outputs, real, best.log_probabilities.tolist(), strict=True)
        ]


def _at_first(words: Sequence[Sequence[int]], numbers: Sequence[int]) -> Iterator[int | None]:
    """Yields for each token its word's number if it is the first, else None."""
    for word, number in zip(words, numbers, strict=True):
        yield number
        yield from [None] * (len(word) - 1)
