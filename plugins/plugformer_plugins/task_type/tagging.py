"""Tagging: a tag for each word of a text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, cast

from plugformer.interfaces import (
    UNKNOWN,
    Batch,
    Column,
    Example,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)
from plugformer_plugins.task_type.labels import number_of, refuse_alternatives

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
    baselines = ("frequent_tag",)

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the tags, sorted."""
        return sorted(set(chain.from_iterable(train["tags"])))

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
        (outputs, scores), (_, real) = model.best(batch), model.targets(batch)
        return [
            Prediction([self.state[tag] for tag in tags[words].tolist()], score)
            for tags, words, score in zip(outputs, real, scores.tolist(), strict=True)
        ]

    def answer_with_probabilities(
        self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int
    ) -> list[Prediction]:
        """Returns the tags of each text, with the probability of each tag for each word."""
        refuse_alternatives(n_best, "tags have")
        logits, (_, real) = model.logits(batch).float(), model.targets(batch)
        answers = []
        for scores, words in zip(logits, real, strict=True):
            logarithms = scores[words].log_softmax(dim=-1)
            best, tags = logarithms.max(dim=-1)
            rows = logarithms.exp().tolist()
            each = [dict(zip(self.state, row, strict=True)) for row in rows]
            output = [self.state[tag] for tag in tags.tolist()]
            answers.append(Prediction(output, best.sum().item(), probabilities=each))
        return answers

    def spans(self, example: Example, output: Any) -> list[Mapping[str, Any]]:
        """Returns the entities that tags mark in `words`, a text or a list that spaces join.

        Tags of all schemes of `entity_f1` are read as the evaluation of CoNLL 2000 reads them: also one that
        has no place where it is, such as I-PER after O, begins an entity. If tags mark no beginnings, as
        parts of speech, each word is a span, except words with the tag O.
        """
        words = example["words"]
        text = words if isinstance(words, str) else " ".join(words)
        places = [match.span() for match in re.finditer(r"\S+", text)]
        if not isinstance(words, str):  # a word may contain a space
            ends = list(accumulate((len(word) + 1 for word in words), initial=0))
            places = [(start, end - 1) for start, end in pairwise(ends)]
        found = marked if all(map(_MARKED.fullmatch, {*self.state} - {"O"})) else separate
        return [
            {"start": (start := places[first][0]), "end": (end := places[last][1]), "label": label}
            | {"text": text[start:end]}
            for label, first, last in found(cast("Sequence[str]", output))
        ]


_MARKED = re.compile(r"[BIEMSLUW]-.+")


def marked(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yields the type, the first and the last word of each entity, as conlleval.pl finds them.

    https://www.clips.uantwerpen.be/conll2000/chunking/conlleval.txt, with the marks of other schemes.
    """
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, own = tag.partition("-")
        if kind and (own != kind or mark in "BSUW" or tags[place - 1][0] in "ELSUW"):
            yield kind, start, place - 1
            kind = ""
        if own and not kind:
            start, kind = place, own


def separate(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yields the tag of each word, except O, and the number of the word, twice."""
    for place, tag in enumerate(tags):
        if tag != "O":
            yield tag, place, place


def _at_first(words: Sequence[Sequence[int]], numbers: Sequence[int]) -> Iterator[int | None]:
    """Yields for each token its word's number if it is the first, else None."""
    for word, number in zip(words, numbers, strict=True):
        yield number
        yield from [None] * (len(word) - 1)
