"""Linear models of counted words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import Example, OutputBaseline, OutputType, Prediction
from plugformer_plugins.baseline.words import counts, features, numbered

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Of the prior or the penalty; every tenth training example chooses one."""


class BagOfWords(OutputBaseline):
    """Naive Bayes of counted words for labels, ridge regression for numbers.

    Features are the words of a text and its pairs of neighbours; of several texts the words, with the texts
    that have them. Multinomial naive Bayes with additive smoothing: Manning et al. 2008, section 13.2,
    https://nlp.stanford.edu/IR-book/html/htmledition/naive-bayes-text-classification-1.html. Wang and Manning
    2012, https://aclanthology.org/P12-2018, show how good it is with pairs. Each of several labels is a
    decision of its own.
    """

    accepts = frozenset({OutputType.LABEL, OutputType.LABELS, OutputType.NUMBER})

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Counts words, and learns weights with the strength that is best for examples held out."""
        rows = [[*features(question)] for question in questions]
        self._numbers = numbered(rows)
        self._model = next(model for kind, model in _MODELS if isinstance(outputs[0], kind))(outputs)
        given, targets = counts(rows, self._numbers), self._model.targets(outputs)
        held_out = np.arange(len(rows)) % 10 == 9
        best = STRENGTHS[1]
        if held_out.any():
            best = min(STRENGTHS, key=lambda strength: self._error(given, targets, held_out, strength))
        self._model.learn(given, targets, best)

    def _error(self, given: Any, targets: ndarray, held_out: ndarray, strength: float) -> float:
        self._model.learn(given[~held_out], targets[~held_out], strength)
        return self._model.error(self._model.scores(given[held_out]), targets[held_out])

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the best classes, the labels that apply, or the number."""
        given = counts([features(question) for question in questions], self._numbers)
        return [
            Prediction.of([Prediction(output) for output in self._model.outputs(row, n_best)])
            for row in self._model.scores(given)
        ]


class LinearModel(ABC):
    """Scores that are linear in the counts of features: the weights, (features, outputs), and a bias."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self.names: list[str] = sorted({name for output in outputs for name in self.names_in(output)})
        self.weights: Float[ndarray, "features outputs"] = np.zeros((0, 0))
        self.bias: Float[ndarray, " outputs"] = np.zeros(0)

    def names_in(self, output: Any) -> Sequence[str]:
        """Returns the names of classes or labels in an output."""
        return [output] if isinstance(output, str) else output

    def targets(self, outputs: Sequence[Any]) -> Float[ndarray, "examples outputs"]:
        """Returns 1 for each class or label that an example has, else 0."""
        return np.array([[name in self.names_in(each) for name in self.names] for each in outputs], float)

    def scores(self, given: Any) -> Float[ndarray, "examples outputs"]:
        """Returns the scores of examples."""
        scores: ndarray = given @ self.weights + self.bias
        return scores

    @abstractmethod
    def learn(self, given: Any, targets: Float[ndarray, "examples outputs"], strength: float) -> None:
        """Learns weights and bias of counts, (examples, features)."""

    @abstractmethod
    def error(self, scores: ndarray, targets: ndarray) -> float:
        """Returns how wrong scores are."""

    @abstractmethod
    def outputs(self, scores: Float[ndarray, " outputs"], n_best: int) -> list[Any]:
        """Returns the best outputs for an example."""


class NaiveBayes(LinearModel):
    """One of several classes."""

    def learn(self, given: Any, targets: ndarray, strength: float) -> None:
        """Sets the logarithms of smoothed shares."""
        found = given.T @ targets + strength
        self.weights = np.log(found / found.sum(axis=0))
        self.bias = np.log(np.maximum(targets.mean(axis=0), 1e-9))

    def error(self, scores: ndarray, targets: ndarray) -> float:
        """Returns the share of wrong answers."""
        return float((scores.argmax(axis=1) != targets.argmax(axis=1)).mean())

    def outputs(self, scores: ndarray, n_best: int) -> list[Any]:
        """Returns the classes with the highest scores."""
        return [self.names[place] for place in np.argsort(-scores, kind="stable")[:n_best]]


class NaiveBayesOfLabels(LinearModel):
    """Any number of labels: the class of those that have one, against the others."""

    def learn(self, given: Any, targets: ndarray, strength: float) -> None:
        """Sets the differences of the logarithms with a label and without it."""
        logarithms, priors = [], []
        for chosen in (targets, 1 - targets):
            found = given.T @ chosen + strength
            logarithms.append(np.log(found / found.sum(axis=0)))
            priors.append(np.log(np.maximum(chosen.mean(axis=0), 1e-9)))
        self.weights, self.bias = logarithms[0] - logarithms[1], priors[0] - priors[1]

    def error(self, scores: ndarray, targets: ndarray) -> float:
        """Returns the share of wrong decisions."""
        return float(((scores > 0) != targets).mean())

    def outputs(self, scores: ndarray, n_best: int) -> list[Any]:
        """Returns the labels that are more likely than not."""
        return [[name for name, score in zip(self.names, scores, strict=True) if score > 0]]


class Ridge(LinearModel):
    """A number: least squares with a penalty, of counts scaled to unit length.

    Hoerl and Kennard 1970, https://doi.org/10.1080/00401706.1970.10488634.
    """

    def names_in(self, output: Any) -> Sequence[str]:
        """Returns nothing: numbers have no names."""
        return []

    def targets(self, outputs: Sequence[Any]) -> Float[ndarray, "examples 1"]:
        """Returns the numbers."""
        return np.array(outputs, float)[:, None]

    def scores(self, given: Any) -> ndarray:
        """Returns numbers."""
        return super().scores(_of_unit_length(given))

    def learn(self, given: Any, targets: ndarray, strength: float) -> None:
        """Solves the least squares of what differs from the mean."""
        from scipy.sparse.linalg import lsqr

        self.bias = targets.mean(axis=0)
        solved = lsqr(_of_unit_length(given), targets[:, 0] - self.bias, damp=strength, iter_lim=100)
        self.weights = solved[0][:, None]

    def error(self, scores: ndarray, targets: ndarray) -> float:
        """Returns the mean squared error."""
        return float(((scores - targets) ** 2).mean())

    def outputs(self, scores: ndarray, n_best: int) -> list[Any]:
        """Returns the number."""
        return [float(scores[0])]


def _of_unit_length(given: Any) -> Any:
    lengths = np.sqrt(np.asarray(given.multiply(given).sum(axis=1))[:, 0])
    return given.multiply(1 / np.maximum(lengths, 1)[:, None]).tocsr()


_MODELS: tuple[tuple[type, type[LinearModel]], ...] = (
    (str, NaiveBayes),
    (list, NaiveBayesOfLabels),
    (float, Ridge),
)
