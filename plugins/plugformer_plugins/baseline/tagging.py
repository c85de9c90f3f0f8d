"""Baselines that tag words."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from plugformer.interfaces import Example, OutputBaseline, OutputType, Prediction


class FrequentTag(OutputBaseline):
    """The most frequent tag of each word; of an unknown one that of its last letters.

    Jurafsky and Martin, Speech and Language Processing, chapter on sequence labeling, call it the baseline of
    the most frequent class: https://web.stanford.edu/~jurafsky/slp3. Unknown words are tagged by their last
    three letters, or else two, or one.
    """

    accepts = frozenset({OutputType.TAGS})

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Counts the tags of words and of their endings."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for question, tags in zip(questions, outputs, strict=True):
            for word, tag in zip(_words(question), tags, strict=True):
                for key in _keys(word):
                    counts[key][tag] += 1
        self._tags = {key: found.most_common(1)[0][0] for key, found in counts.items()}

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns a tag for each word."""
        return [
            Prediction([next(self._tags[key] for key in _keys(word) if key in self._tags) for word in words])
            for words in map(_words, questions)
        ]


def _words(question: Example) -> Sequence[str]:
    """Returns the words that are tagged, the first input."""
    found: Sequence[str] = next(iter(question.values()))
    return found


def _keys(word: str) -> Iterator[str]:
    """Yields a word, then its endings in lower case, the last one empty."""
    yield f"={word}"
    for length in (3, 2, 1):
        yield word[-length:].lower()
    yield ""
