"""Metrics of ranked lists of answers, such as the texts that a retrieval model finds."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.interfaces import OutputMetric
from plugformer_plugins.metric.accuracy import Share

Depth = Annotated[int, Field(ge=1, description="Number of answers that count, the best first.")]


class RankingMetric(OutputMetric):
    """A metric of the place of the first right answer among the best.

    Args:
        k: Number of answers that count.
    """

    def __init__(self, *, k: Depth = 10) -> None:
        self.depth = k

    def places(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns the place of the first answer that is a reference, from 1; infinity if none is."""
        places = np.full((len(predictions), 1), np.inf)
        for row, (answers, right) in enumerate(zip(predictions, references, strict=True)):
            found = (place for place, answer in enumerate(answers[: self.depth], 1) if answer in right)
            places[row] = next(found, np.inf)
        return places


class RecallAtK(Share, RankingMetric):
    """The share of examples with a right answer among the best k, as in text and image retrieval.

    Karpathy and Fei-Fei 2015, section 4.1: https://arxiv.org/abs/1412.2306.
    """

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        found: Float[ndarray, "examples 1"] = np.isfinite(self.places(predictions, references)) * 1.0
        return found


class MeanReciprocalRank(RankingMetric):
    """Mean reciprocal rank, of the first right answer among the best k.

    The mean of 1 / place of the first right answer, 0 if it is not among the best k.

    Voorhees 1999, section 3: https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf.
    """

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns the reciprocal of each example's place."""
        return 1 / self.places(predictions, references)

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the mean."""
        return float(statistics.mean())
