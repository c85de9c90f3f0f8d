"""Baselines that copy: the question, or the answer to the question that is most similar."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from plugformer.interfaces import Example, Level, OutputBaseline, OutputType, Prediction, TaskType, as_text

COLUMNS = 2**18
"""Numbers of n-grams; those that share one are counted together (Weinberger et al. 2009, arXiv:0902.2206)."""

_SIZES = (3, 4, 5)  # of n-grams
_ROWS = 256  # questions that are compared at a time


class Copy(OutputBaseline):
    """The question itself, as a translation or a correction that changes nothing.

    Xu et al. 2016, https://aclanthology.org/Q16-1029, on the scores of sentences that are not simplified.
    """

    accepts = frozenset({OutputType.TEXT})
    limit = 0

    @classmethod
    def fits(cls, task_type: TaskType) -> bool:
        """Returns whether texts are written, not found among others."""
        return super().fits(task_type) and task_type.level is Level.NEXT_TOKEN

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Learns nothing."""

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the first input of each question."""
        return [Prediction(as_text(next(iter(question.values())))) for question in questions]


class NearestNeighbour(OutputBaseline):
    """The answer to the training example whose question is most similar; among candidates the most similar.

    Texts are similar if they have the same rare sequences of 3 to 5 characters, by the cosine of their tf-idf
    weights: Manning et al. 2008, section 6.3, https://nlp.stanford.edu/IR-book/html/htmledition/dot-products-1.html.
    """

    accepts = frozenset({OutputType.TEXT, OutputType.LABEL, OutputType.LABELS, OutputType.NUMBER})
    limit = 10_000

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Weighs the n-grams of questions."""
        asked = list(map(_text, questions))
        self._outputs, counted = outputs, _counts(asked)
        documents = np.bincount(counted.indices, minlength=COLUMNS)
        self._idf = np.log((1 + len(asked)) / (1 + documents)).astype(np.float32) + 1
        self._known = self._weights(counted)

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the outputs of the nearest examples, or the nearest candidates."""
        asked = self._weights(_counts(list(map(_text, questions))))
        outputs, known = self._outputs, self._known
        if candidates:
            outputs, known = candidates, self._weights(_counts(list(map(as_text, candidates))))
        transposed, answers = known.T.tocsr(), list[Prediction]()
        for start in range(0, len(questions), _ROWS):
            for row in (asked[start : start + _ROWS] @ transposed).toarray():
                places = ranked(row, n_best)
                answers.append(Prediction.of([Prediction(outputs[place]) for place in places]))
        return answers

    def _weights(self, counted: Any) -> Any:
        """Returns rows of tf-idf weights with unit length."""
        from scipy import sparse

        weighted = counted.copy()
        weighted.data = (1 + np.log(weighted.data)) * self._idf[weighted.indices]
        lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1))[:, 0])
        return sparse.diags(1 / np.maximum(lengths, 1e-9)).astype(np.float32) @ weighted


def ranked(scores: ndarray, count: int) -> list[int]:
    """Returns the places of the highest scores, the best first, and of equal ones the first."""
    if count == 1:
        return [int(scores.argmax())]
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


def _text(question: Example) -> str:
    return "\t".join(map(as_text, question.values()))


def _counts(texts: Sequence[str]) -> Any:
    """Returns a sparse matrix (texts, COLUMNS) with the number of each text's n-grams."""
    from scipy import sparse

    padded = [f"  {text.lower()}  " for text in texts]
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    owners = np.repeat(np.arange(len(texts)), list(map(len, padded)))
    rows, columns = [], []
    numbers = np.zeros(len(codes), dtype=np.uint64)
    for size in range(1, max(_SIZES) + 1):  # numbers[i] is that of the n-gram that begins with character i
        whole = len(codes) - size + 1
        numbers = numbers[:whole] * np.uint64(1_000_003) + codes[size - 1 :]
        if size in _SIZES:
            within = owners[:whole] == owners[size - 1 :]
            rows.append(owners[:whole][within])
            columns.append(
                (numbers[within] * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(46)).astype(np.int64)
            )
    at, column = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_matrix((np.ones(len(at), dtype=np.float32), (at, column)), (len(texts), COLUMNS))
    matrix.sum_duplicates()
    return matrix
