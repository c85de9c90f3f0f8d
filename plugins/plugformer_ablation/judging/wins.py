"""On how many test examples an arm is better and worse than its baseline."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric, Metric
from plugformer_ablation.judging.comparison import ROUNDING
from plugformer_ablation.judging.records import Wins
from plugformer_ablation.judging.results import CellResult


def wins(arm: Sequence[CellResult], baseline: Sequence[CellResult], name: str, metric: Metric) -> Wins | None:
    """Returns counts of examples by their means over the seeds that both have.

    None if there are no such seeds, or single examples have no score: a metric that is neither a mean over
    examples nor one of likelihoods, such as BLEU, says little of one.
    """
    theirs = {cell.seed: cell for cell in baseline if name in cell.statistics}
    pairs = [(cell, theirs[cell.seed]) for cell in arm if cell.seed in theirs and name in cell.statistics]
    sides = [[_scores(cell.statistics[name], metric) for cell in side] for side in zip(*pairs, strict=True)]
    scores = [each for side in sides for each in side]
    if not scores or len({None if each is None else len(each) for each in scores}) > 1 or scores[0] is None:
        return None
    ours, others = (np.mean(np.array(side, dtype=float), axis=0) for side in sides)
    gain = (ours - others) * (1 if metric.higher_is_better else -1)
    limit = ROUNDING * np.abs([ours, others]).max()
    better, worse = int((gain > limit).sum()), int((gain < -limit).sum())
    return {"better": better, "worse": worse, "same": len(gain) - better - worse}


def _scores(
    statistics: Float[ndarray, "examples statistics"], metric: Metric
) -> Float[ndarray, " examples"] | None:
    """Returns the score of each example, or None if single ones have none."""
    rows, which = np.unique(statistics, axis=0, return_inverse=True)
    scores = np.array([metric.aggregate(row[None]) for row in rows])[which.reshape(-1)]
    is_mean = np.isclose(scores.mean(), metric.aggregate(statistics))
    return scores if is_mean or isinstance(metric, LikelihoodMetric) else None
