"""What follows from a study's results."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.ablation.studies import with_cells

from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import find

ARMS = {"baseline": 0.7, "same": 0.7, "better": 0.95}


def test_a_planted_difference_is_found_and_its_figures_are_scipy_s(made_up):
    results = made_up(ARMS)
    found = find(results)
    same, better = found.comparisons
    assert (same["verdict"], better["verdict"]) == (Verdict.NOT_DISTINGUISHABLE, Verdict.BETTER)
    scores = {
        arm: [cell.metrics["exact_match"] for cell in results.cells_of(arm)] for arm in ("baseline", "better")
    }
    expected = stats.ttest_rel(scores["better"], scores["baseline"])
    assert better["difference"] / better["standard_error"]["seeds"] == pytest.approx(expected.statistic)
    summary = found.record["arms"][0]["score"]
    interval = stats.ttest_1samp(scores["baseline"], 0).confidence_interval()
    assert (summary["mean"], summary["deviation"]) == pytest.approx(
        (np.mean(scores["baseline"]), np.std(scores["baseline"], ddof=1))
    )
    assert (summary["low"], summary["high"]) == pytest.approx(tuple(interval))
    losses = [
        ours.loss - theirs.loss
        for ours, theirs in zip(results.cells_of("better"), results.cells_of("baseline"), strict=True)
    ]
    low, high = stats.ttest_1samp(losses, 0).confidence_interval()
    expected = {"mean": np.mean(losses), "low": low, "high": high}
    assert better["loss_difference"] == pytest.approx(expected)


def test_lower_is_better_where_the_metric_says_so(made_up):
    results = made_up({"baseline": 0.95, "lower": 0.6})
    metric = results.metrics["lower"]["exact_match"]
    upside_down = type("Errors", (type(metric),), {"higher_is_better": False})()
    found = find(replace(results, metrics={key: {"exact_match": upside_down} for key in results.metrics}))
    assert found.comparisons[0]["verdict"] == Verdict.BETTER


def test_scores_that_are_no_numbers_have_no_mean_and_are_in_no_pair(made_up):
    results = made_up(ARMS)
    broken = {("same", 1): {"metrics": {"exact_match": math.inf}, "loss": math.nan}}
    found = find(with_cells(results, lambda cell: broken.get((cell.arm, cell.seed), {})))
    arm, comparison = found.record["arms"][1], found.comparisons[0]
    assert arm["score"] is arm["loss"] is None
    assert comparison["pairs"] == 4
