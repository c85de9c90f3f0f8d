"""Speedups at equal loss: what curves say, worked out by hand, and how often they are right."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from plugformer_ablation.judging.currency import speedup
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.reporting.currency_sentences import currency_sentences


def costing(flops=100.0, update=None, choices=()):
    return {"cost": {"flops": flops, "update": update}, "choices": choices}


COST = costing()
STEPS = (100, 200, 400, 800)
FALLING = (4.0, 3.0, 2.0, 1.0)
"""A loss that falls by 1 with every doubling of the updates."""


def cell(losses, seed=1, steps=STEPS, tokens=0):
    curve = [{"step": step, "loss": loss} for step, loss in zip(steps, losses, strict=True)]
    return CellResult("arm", seed, curve=curve, tokens=tokens)


@pytest.mark.parametrize(
    ("arm", "baseline", "ratio", "reaches"),
    [
        ((3.0, 2.0, 1.0, 0.0), FALLING, 2.0, 1),
        (FALLING, (3.0, 2.0, 1.0, 0.0), 0.5, 0),
        (FALLING, FALLING, 1.0, 0),
        ((3.5, 2.5, 1.5, 0.5), FALLING, 2**0.5, 1),
        ((6.0, 0.5, 1.5, 0.0), FALLING, 2 ** (3 - (10 / 11 + 7 / 3) / 2), 1),
        ((None, 3.0, 2.0, 0.0), FALLING, 2**0.5, 1),
    ],
    ids=["faster", "slower", "alike", "between evaluations", "noisy: middle of the crossings", "not finite"],
)
def test_updates_to_the_larger_final_loss(arm, baseline, ratio, reaches):
    found = speedup([cell(arm)], [cell(baseline)], COST, COST)
    assert found["updates"] == {"ratio": pytest.approx(ratio), "low": None, "high": None}
    assert (found["pairs"], found["reaches"]) == (1, reaches)
    assert not {"tokens", "operations", "time"} & found.keys()


def test_trainings_of_other_lengths_end_at_their_own_updates():
    found = speedup([cell(FALLING, steps=(50, 100, 200, 400))], [cell(FALLING)], COST, COST)
    assert found["updates"]["ratio"] == pytest.approx(2)


def test_tokens_operations_and_time_divide_by_what_an_update_costs():
    update = {"ratio": 4.0, "low": 3.2, "high": 5.0}
    arm, baseline = [cell((3.0, 2.0, 1.0, 0.0), tokens=800)], [cell(FALLING, tokens=2400)]
    found = speedup(arm, baseline, costing(400.0, update), COST)
    ratios = [found[name]["ratio"] for name in ("updates", "tokens", "operations", "time")]
    assert ratios == pytest.approx([2, 2 * 3, 2 * 3 / 4, 2 / 4])


def test_operations_are_those_of_what_each_seed_has_chosen():
    both = [cell(FALLING, seed, tokens=800) for seed in (1, 2)]
    choices = [{"seeds": [seed], "cost": {"flops": 100.0 * seed}} for seed in (1, 2)]
    found = speedup(both, both, costing(choices=choices), COST)
    assert found["operations"]["ratio"] == pytest.approx((1 / 2) ** 0.5)


def test_the_interval_is_that_of_logarithms_over_seeds_and_of_the_measured_time():
    drops = (1.0, 1.2, 0.6, 0.9)
    arm = [cell(np.array(FALLING) - drop, seed) for seed, drop in enumerate(drops)]
    baseline = [cell(FALLING, seed) for seed in range(9)]
    found = speedup(arm, baseline, costing(update={"ratio": 2.0, "low": 1.6, "high": 2.5}), COST)
    logs = np.array(drops) * np.log(2)
    expected = ttest_1samp(logs, 0).confidence_interval(0.95)
    ends = [found["updates"][end] for end in ("low", "high")]
    assert found["pairs"] == 4
    assert np.log(ends) == pytest.approx([expected.low, expected.high])
    margin = np.hypot((expected.high - expected.low) / 2, np.log(2.5 / 1.6) / 2)
    ends = [found["time"][end] for end in ("low", "high")]
    assert np.log(ends) == pytest.approx(logs.mean() - np.log(2) + np.array([-margin, margin]))


@pytest.mark.parametrize(
    ("arm", "baseline", "note"),
    [
        (cell((1.0, 0.5, 0.4, 0.3)), cell(FALLING), "before its first evaluation"),
        (cell(FALLING), cell((1.0, 0.5, 0.4, 0.3)), "before its first evaluation"),
        (cell((1.0,), steps=(800,)), cell(FALLING), "two evaluations"),
        (replace(cell((), steps=()), diverged="the loss is not finite"), cell(FALLING), "diverged"),
        (cell(FALLING, seed=2), cell(FALLING, seed=1), "two evaluations"),
    ],
)
def test_no_speedup_is_told_where_curves_do_not_tell_one(arm, baseline, note):
    found = speedup([arm], [baseline], COST, COST)
    assert note in found["note"]
    assert not {"updates", "tokens", "operations", "time"} & found.keys()


@pytest.mark.parametrize(("tokens", "unit"), [(9_000, "tokens"), (0, "updates")])
def test_a_study_tells_the_speedup_of_each_arm(made_up, tokens, unit):
    results = made_up({"baseline": 0.7, "other": 0.9}, seeds=2, examples=40)
    cells = [replace(each, tokens=tokens, diverged=None) for each in results.cells]
    found = find(replace(results, cells=tuple(cells)))
    line, explained = currency_sentences(found)
    units = ["operations", "time"] if tokens else ["time"]
    more = "; ".join(rf"\d\.\d\d in {each} \(interval \d\.\d\d to \d\.\d\d\)" for each in units)
    expected = (
        rf"other: \d\.\d\d times as fast to the same validation loss in {unit} \(95 % interval "
        rf"\d\.\d\d to \d\.\d\d\); {more}; its final loss is the lower one with 2 of 2 seeds\."
    )
    assert re.fullmatch(expected, line)
    assert "planned to be shorter" in explained
    broken = replace(found.results.cells[-1], diverged="the loss is not finite")
    found = find(replace(results, cells=(*cells[:-1], broken)))
    assert currency_sentences(found) == ["other: no speedup, since a training diverged."]


@pytest.fixture(scope="module")
def simulation(benchmark):
    return benchmark("speedups")


def test_intervals_cover_the_true_speedup(simulation):
    studies = 150
    for world in (simulation.WORLDS[1], simulation.WORLDS[9]):
        found = [simulation.study(world, number) for number in range(studies)]
        assert sum(covers for _, covers in found) >= binom.ppf(0.001, studies, 0.95)
        assert np.mean([ratio for ratio, _ in found]) == pytest.approx(world.speedup, rel=0.02)
