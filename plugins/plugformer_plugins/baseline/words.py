"""Words of texts, as baselines count them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from plugformer.interfaces import Example, as_text

_WORD = re.compile(r"[\u2e80-\u9fff]|[^\W\u2e80-\u9fff]+")
"""A run of letters and digits, or one Chinese or Japanese character, which no space sets apart."""


def words(text: str) -> list[str]:
    """Returns the lower-cased words of a text, without punctuation."""
    return _WORD.findall(text.lower())


def features(question: Example) -> Iterator[str]:
    """Yields the words of a text and its pairs of neighbours; of several texts words with who has them.

    For each word of these, it is also a feature whether all texts share it.
    """
    texts = [words(as_text(value)) for value in question.values()]
    if len(texts) == 1:
        yield from texts[0]
        yield from map(" ".join, pairwise(texts[0]))
        return
    for word in dict.fromkeys(word for text in texts for word in text):
        places = [number for number, text in enumerate(texts) if word in text]
        yield f"{word} {places}"
        yield "shared" if len(places) == len(texts) else "not shared"


def numbered(rows: Iterable[Iterable[str]]) -> dict[str, int]:
    """Returns a number for each different word or feature."""
    return {each: number for number, each in enumerate(dict.fromkeys(chain.from_iterable(rows)))}


def counts(rows: Sequence[Iterable[str]], numbers: Mapping[str, int]) -> Any:
    """Returns a sparse matrix (rows, features): how often each row has each feature that has a number."""
    from scipy import sparse  # only trainings wait for it

    found = [[numbers[feature] for feature in row if feature in numbers] for row in rows]
    indices = np.array([number for row in found for number in row], dtype=np.int64)
    ends = np.cumsum([0, *map(len, found)])
    matrix = sparse.csr_matrix((np.ones(len(indices)), indices, ends), (len(rows), len(numbers)))
    matrix.sum_duplicates()
    return matrix
