"""Words of two texts that belong together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plugformer.interfaces import Example, OutputBaseline, OutputType, Prediction, TaskType, as_text
from plugformer_plugins.baseline.neighbours import ranked
from plugformer_plugins.baseline.words import counts, numbered, words

ITERATIONS = 5
SMALLEST = 1e-6
"""Probability of a word that no pair of texts explains."""


class IBMModel1(OutputBaseline):
    """Ranks candidates by the probability that their words are translated into those of the question.

    IBM model 1: each word of the question is a translation of one word of the candidate, or of none, all
    equally likely; Brown et al. 1993, equation 6, https://aclanthology.org/J93-2003. Berger and Lafferty 1999
    retrieve by translation: https://doi.org/10.1145/312624.312681.
    """

    accepts = frozenset({OutputType.TEXT})

    @classmethod
    def fits(cls, task_type: TaskType) -> bool:
        """Returns whether the task ranks texts."""
        return super().fits(task_type) and type(task_type).rank is not TaskType.rank

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Estimates the probabilities of translations by expectation maximization."""
        from scipy import sparse

        asked, given = list(map(_words, questions)), [["", *words(as_text(output))] for output in outputs]
        self._asked, self._given = numbered(asked), numbered(given)
        token, f, e = _links(
            [[self._asked[word] for word in row] for row in asked],
            [[self._given[word] for word in row] for row in given],
        )
        pairs, link = np.unique(f * len(self._given) + e, return_inverse=True)
        pair_f, pair_e = np.divmod(pairs, len(self._given))
        table = np.ones(len(pairs))
        for _ in range(ITERATIONS):
            weight = table[link]
            counted = np.bincount(link, weight / np.bincount(token, weight)[token])
            table = counted / np.bincount(pair_e, counted)[pair_e]
        shape = (len(self._asked), len(self._given))
        self._table = sparse.csc_matrix((table, (pair_f, pair_e)), shape)

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the candidates that explain each question's words best."""
        asked = counts(list(map(_words, questions)), self._asked)
        scores = np.zeros((len(questions), len(candidates)))
        for column, text in enumerate(candidates):
            known = [self._given[word] for word in ["", *words(as_text(text))] if word in self._given]
            likely = np.log(np.maximum(np.asarray(self._table[:, known].mean(axis=1))[:, 0], SMALLEST))
            scores[:, column] = asked @ likely
        return [
            Prediction.of([Prediction(candidates[place]) for place in ranked(row, n_best)]) for row in scores
        ]


def _words(question: Example) -> list[str]:
    return words(" ".join(map(as_text, question.values())))


def _links(asked: Sequence[Sequence[int]], given: Sequence[Sequence[int]]) -> tuple[Any, Any, Any]:
    """Returns for each link of a word asked to one given in its pair: the word's place, and both numbers."""
    links = np.repeat(list(map(len, given)), list(map(len, asked)))  # links of each word asked
    tokens = np.repeat(np.arange(len(links)), links)
    f = np.repeat(np.array([word for row in asked for word in row], dtype=np.int64), links)
    e = np.array(
        [word for row, other in zip(given, asked, strict=True) for word in [*row] * len(other)], np.int64
    )
    return tokens, f, e
