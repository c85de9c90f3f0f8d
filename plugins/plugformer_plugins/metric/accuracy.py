"""Shares of what is right: labels, whole outputs, tags."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import Metric, OutputMetric, OutputType, SourceMetric


class Share(Metric):
    """The share of hits among examples of one statistic each: 1 for a hit, 0 for a miss."""

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the share of hits."""
        return float(statistics.mean())

    def interval(self, statistics: Float[ndarray, "examples 1"], level: float = 0.95) -> tuple[float, float]:
        """Returns Wilson's score interval, sane for few examples and for shares of 0 and 1.

        Wilson (1927), https://doi.org/10.1080/01621459.1927.10502953, as in Brown, Cai and DasGupta (2001),
        equation 4, https://doi.org/10.1214/ss/1009213286.
        """
        share, count = float(statistics.mean()), len(statistics)
        squared = NormalDist().inv_cdf((1 + level) / 2) ** 2
        middle = share + squared / (2 * count)
        half = math.sqrt(squared * (share * (1 - share) + squared / (4 * count)) / count)
        low, high = ((middle + side) / (1 + squared / count) for side in (-half, half))
        return low if share > 0 else 0.0, high if share < 1 else 1.0


class Ratio(Metric):
    """The sum of one statistic over that of another."""

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the ratio over all examples together; 0 if the second sum is 0."""
        counted, whole = statistics.sum(axis=0)
        return float(counted / whole) if whole else 0.0


class Accuracy(Share, OutputMetric):
    """The share of examples whose predicted label is the reference; labels are compared by name.

    See https://scikit-learn.org/stable/modules/model_evaluation.html#accuracy-score.
    """

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        pairs = zip(predictions, references, strict=True)
        return _column(prediction in answers for prediction, answers in pairs)


class ExactMatch(Accuracy):
    """The share of outputs that equal one of their references, character by character.

    See https://arxiv.org/abs/1606.05250.
    """


MOST = 100
"""Maximum number of classes in a table, which has the square of it as numbers."""


class ConfusionMatrix(Accuracy):
    """Accuracy, with a table of right classes against predicted ones.

    A class that is neither right nor predicted anywhere has no row. Of more than 100 others, those with most
    mistakes have one.
    See https://scikit-learn.org/stable/modules/model_evaluation.html#confusion-matrix.
    """

    def table(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Returns the number of examples of each right class (rows) that got each label (columns)."""
        pairs = [
            (prediction if prediction in answers else answers[0], prediction)
            for prediction, answers in zip(predictions, references, strict=True)
        ]
        counts, found = Counter(pairs), {name for pair in pairs for name in pair}
        mistakes = Counter(name for pair in pairs if pair[0] != pair[1] for name in pair)
        names = sorted(sorted(found, key=lambda name: (-mistakes[name], name))[:MOST])
        rows = {right: [counts[right, predicted] for predicted in names] for right in names}
        cut = f" (the {MOST} of {len(found):,} with most mistakes)" if len(found) > MOST else ""
        title = f"right classes in rows, predicted ones in columns{cut}"
        return {"title": title, "columns": names, "rows": rows}


class TagAccuracy(Ratio, OutputMetric):
    """The share of words whose tag is the right one; its interval resamples whole texts.

    See https://aclanthology.org/K18-2001.
    """

    accepts = frozenset({OutputType.TAGS})

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns the number of right tags and of words."""
        pairs = [(given, right[0]) for given, right in zip(predictions, references, strict=True)]
        counts = [[sum(map(str.__eq__, given, right)), max(len(given), len(right))] for given, right in pairs]
        return np.array(counts, float).reshape(-1, 2)


class SourceProportion(Share, SourceMetric):
    """The share of examples whose output fits its source, whatever the references are."""

    @abstractmethod
    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether a prediction fits."""

    def statistics(
        self, sources: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        return _column(map(self.hit, sources, predictions))


class SameLength(SourceProportion):
    """The share of outputs that have as many characters (code points) as their source.

    See https://en.wikipedia.org/wiki/Antithetical_couplet.
    """

    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether both have the same length."""
        return len(prediction) == len(source)


class MirroredRepeats(SourceProportion):
    """The share of outputs that repeat characters where their source does, and nowhere else.

    An output mirrors its source if both have the same length and, of any two places, the output has the same
    character at both exactly if the source has. 山西悬空寺空悬西山 so answers 上海自来水来自海上: in both,
    places 1 and 9 are equal, 2 and 8, 3 and 7, 4 and 6, and no others. Characters are code points,
    punctuation and spaces included.
    See https://en.wikipedia.org/wiki/Antithetical_couplet.

    Any output without a repeat mirrors a source of its length without one. A table therefore counts sources
    with a repeat and without apart.
    """

    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether the prediction has the source's pattern of repeats."""
        return [*map(source.index, source)] == [*map(prediction.index, prediction)]

    def table(
        self, sources: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, Any]:
        """Returns the number of outputs that mirror their source, by whether that has a repeat."""
        counts = {"with a repeat": [0, 0], "without": [0, 0]}
        for source, prediction in zip(sources, predictions, strict=True):
            row = "with a repeat" if len(set(source)) < len(source) else "without"
            counts[row][not self.hit(source, prediction)] += 1
        title = "sources with a repeated character, and without"
        return {"title": title, "columns": ["mirrored", "not"], "rows": counts}


def _column(hits: Iterable[bool]) -> Float[ndarray, "examples 1"]:
    return np.array([[float(hit)] for hit in hits]).reshape(-1, 1)
