"""What follows from a study's results."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.sentences import explanation, heading

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


def test_a_score_that_is_no_number_is_left_out(made_up):
    results = made_up(ARMS)
    cells = tuple(
        replace(cell, metrics={"exact_match": math.inf}, loss=math.nan)
        if (cell.arm, cell.seed) == ("same", 1)
        else cell
        for cell in results.cells
    )
    found = find(replace(results, cells=cells))
    arm, comparison = found.record["arms"][1], found.comparisons[0]
    assert arm["score"]["seeds"] == arm["loss"]["seeds"] == comparison["pairs"] == 4


def test_looks_at_growing_seeds_are_counted(made_up):
    results = made_up(ARMS, examples=100)
    looks = ()
    for seeds, split, expected in (
        ([1], "test", []),
        ([1, 2, 3], "test", [3]),
        ([1, 2, 3], "test", [3]),
        ([1, 2], "validation", [2]),
        ([1, 2, 3, 4], "test", [3, 4]),
        ([1, 2, 3, 4, 5], "test", [3, 4, 5]),
    ):
        cells = tuple(cell for cell in results.cells if cell.seed in seeds)
        study = {**results.study, "seeds": seeds, "looks": [len(seeds)]}
        arms = tuple({**arm, "split": split} for arm in results.arms)
        found = find(replace(results, study=study, arms=arms, cells=cells, looks=looks))
        looks = tuple(found.record["looks"])
        assert [len(look["seeds"]) for look in found.looks] == expected
    assert looks[-1]["verdicts"].keys() == {"same", "better"}
    assert "(3 looks at this study)" in heading(found)
    assert any("3 looks at this study (3, 4, 5 seeds)" in line for line in explanation(found))
    assert found.comparisons[0]["level"] == pytest.approx(1 - 0.05 / 2 / 4), "a quarter of its chance to err"
