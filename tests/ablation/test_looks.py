"""Planned looks: their levels, what they decide, and which seeds they save."""

import io
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy.special import stdtr
from tests.ablation.studies import Inline, declared, with_cells

from plugformer.errors import ConfigurationError
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.looks import nominal_levels
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.reporting.sentences import percent
from plugformer_ablation.running import running
from plugformer_ablation.running.running import run_study

LOOKS = (3, 5, 8, 12)


def test_levels_are_those_of_published_tables():
    """Lan and DeMets' function for five looks, from the tables of Reboussin et al. (2000)."""
    levels = nominal_levels(0.05, (1, 2, 3, 4, 5))
    bounds = [-NormalDist().inv_cdf(level / 2) for level in levels]
    assert bounds == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=2e-3)
    assert nominal_levels(0.05, (7,)) == (0.05,)


@pytest.mark.parametrize(("looks", "alpha"), [(LOOKS, 0.05), (LOOKS, 0.0125), ((2, 3, 4, 5), 0.05)])
def test_looks_with_a_t_test_err_hardly_more_often_than_one(looks, alpha):
    draws = np.random.default_rng(0).normal(size=(40_000, looks[-1]))
    erred = np.zeros(len(draws), bool)
    for seeds, level in zip(looks, nominal_levels(alpha, looks), strict=True):
        seen = draws[:, :seeds]
        t = seen.mean(axis=1) / (seen.std(axis=1, ddof=1) / np.sqrt(seeds))
        erred |= 2 * stdtr(seeds - 1, -abs(t)) < level
    assert 0.8 * alpha < erred.mean() < 1.2 * alpha


def study(made_up, accuracies, seeds, looks, **options):
    results = made_up(accuracies, seeds=seeds)
    return replace(results, study={**results.study, "looks": list(looks), **options})


def test_a_comparison_stays_as_it_was_decided(made_up):
    """Whatever later seeds say: they would not have been trained."""
    results = study(made_up, {"baseline": 0.9, "worse": 0.3}, 12, LOOKS)
    (all_seeds,) = find(results).comparisons
    early = tuple(cell for cell in results.cells if cell.seed <= all_seeds["look"])
    (few,) = find(replace(results, cells=early)).comparisons
    rest = dict.fromkeys(("loss_difference", "speedup", "examples"))  # of all seeds that there are
    assert {**all_seeds, **rest} == {**few, **rest}
    assert few["verdict"] == Verdict.WORSE
    assert few["look"] < LOOKS[-1]


def test_a_look_waits_for_its_seeds(made_up):
    results = study(made_up, {"baseline": 0.9, "same": 0.9}, 12, LOOKS)
    seen = tuple(cell for cell in results.cells if cell.seed <= 6)
    (comparison,) = find(replace(results, cells=seen)).comparisons
    assert (comparison["look"], comparison["pairs"]) == (5, 5)


@pytest.mark.parametrize(
    ("accuracy", "effect", "verdict"),
    [
        (0.9, 0.2, Verdict.EQUIVALENT),
        (0.9, "20 %", Verdict.EQUIVALENT),
        (0.9, 0.001, Verdict.UNDECIDED),
        (0.88, 0.2, Verdict.EQUIVALENT),  # the interval excludes 0, and what matters
        (0.5, 0.2, Verdict.WORSE),
        (0.9, None, Verdict.NOT_DISTINGUISHABLE),
    ],
)
def test_the_smallest_effect_decides_what_is_equivalent(made_up, accuracy, effect, verdict):
    results = study(made_up, {"baseline": 0.9, "other": accuracy}, 6, [6], smallest_effect=effect)
    findings = find(results)
    assert findings.comparisons[0]["verdict"] == verdict
    if effect is not None and verdict != Verdict.WORSE:
        assert verdict in StudyReport(findings).text(None)


def test_equivalence_needs_all_seeds(made_up):
    results = study(made_up, {"baseline": 0.9, "other": 0.9}, 6, [6], smallest_effect=0.2)
    lost = {("other", 2): {"failure": "lost"}}
    (comparison,) = find(with_cells(results, lambda cell: lost.get((cell.arm, cell.seed), {}))).comparisons
    assert comparison["verdict"] == Verdict.NONE


@pytest.mark.parametrize(
    ("wrong", "message"), [([3, 3], "rising"), ([5, 3], "rising"), ([1, 3], "greater than")]
)
def test_looks_rise_from_two_seeds_on(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        declared(seeds={"looks": wrong})


def test_a_metric_at_its_floor_shows_no_equivalence(made_up):
    results = study(made_up, {"baseline": 0.0, "other": 0.0}, 6, [6], smallest_effect=0.2)
    floor = {"metrics": {"exact_match": 0.0}, "statistics": {"exact_match": np.zeros((500, 1))}}
    findings = find(with_cells(results, lambda _: floor))
    assert findings.comparisons[0]["verdict"] == Verdict.UNDECIDED
    assert "undecided, since at its floor" in StudyReport(findings).text(None)
    half = {"metrics": {"exact_match": 0.5}, "statistics": {"exact_match": np.eye(500)[:, :1] / 2 + 0.25}}
    told = StudyReport(find(with_cells(results, lambda _: half))).text(None)
    assert "undecided, since where all trainings have one score nothing tells arms apart" in told


def test_a_divergence_and_not_the_interval_is_why_arms_are_undecided(made_up):
    results = study(made_up, {"baseline": 0.9, "other": 0.9}, 6, [6], smallest_effect=0.2)
    broken = {("other", 2): {"diverged": "loss"}}
    told = StudyReport(find(with_cells(results, lambda cell: broken.get((cell.arm, cell.seed), {})))).text(
        None
    )
    assert "undecided, since equivalence needs all trainings of both arms" in told


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.95, "95 %"),
        (0.995833, "99.58 %"),
        (0.99999437, "99.99944 %"),
        (0.00625, "0.625 %"),
        (1.0, "99.9999999999 %"),
    ],
)
def test_no_level_is_told_as_100_percent(level, text):
    assert percent(level) == text


def test_arms_that_are_decided_are_trained_with_no_more_seeds(registry, tmp_path, monkeypatch):
    arm = "attention=gqa(kv_heads=1)"
    found = SimpleNamespace(comparisons=[{"arm": arm, "verdict": Verdict.EQUIVALENT}], overall=[])
    monkeypatch.setattr(running, "find", lambda results: found)
    said, executor = io.StringIO(), Inline()
    plan = declared(seeds={"looks": [2, 4]}, smallest_effect=0.5)
    results = run_study(plan, tmp_path / "s", registry, executor, Console(file=said, width=200))
    assert [cell.seed for cell in results.cells] == [1, 2, 1, 2]
    assert f"after 2 seeds: {arm} is equivalent" in said.getvalue()
    assert len(executor.begun) == 4


def test_looks_after_very_few_seeds_have_levels_above_0():
    for looks in ((3, 10, 30), (4, 8, 20), (2, 40)):
        assert all(0 < level < 1 for level in nominal_levels(0.05 / 200, looks))
