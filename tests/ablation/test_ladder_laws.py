"""Power laws, decisions of small scales, and noise: planted, by hand, and as scipy has them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.stats import binom
from tests.ablation.studies import with_cells

from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.ladder_laws import Rung, fit, power_law
from plugformer_ablation.judging.reliability import signal_to_noise
from plugformer_ablation.reporting.currency_sentences import currency_sentences
from plugformer_ablation.reporting.figures import draw

OPERATIONS = np.array([1e12, 4e12, 1.6e13, 6.4e13])


def law(operations, irreducible=1.7, reducible=0.8, exponent=0.2):
    return irreducible + reducible * (operations / OPERATIONS[-1]) ** -exponent


def rungs(factor=1.0, luck=0.0, seeds=3, generator=None):
    generator = generator or np.random.default_rng(0)
    for count in OPERATIONS:
        yield Rung(count, law(factor * count) * (1 + luck * generator.standard_normal(seeds)))


def test_a_law_without_noise_is_found_with_what_follows_from_it():
    found = power_law(list(rungs(1.3)), list(rungs()))
    assert (found["irreducible"], found["exponent"]) == pytest.approx((1.7, 0.2), abs=0.01)
    assert found["predicted"] == pytest.approx(law(1.3 * OPERATIONS[-1]), rel=1e-3)
    assert found["scales"]["loss"][-1] == pytest.approx(law(1.3 * OPERATIONS[-1]))
    assert list(found["multiplier"].values()) == pytest.approx([1.3] * 3, rel=0.01)
    curve = found["curve"]
    assert curve["operations"][0] == OPERATIONS[0]
    assert curve["operations"][-1] == pytest.approx(10 * OPERATIONS[-1])
    assert curve["loss"][-1] == pytest.approx(law(13 * OPERATIONS[-1]), rel=1e-3)


def test_a_multiplier_is_one_of_operations_though_scales_differ_in_them():
    halves = [Rung(step.operations / 2, law(step.operations) + np.zeros(3)) for step in rungs()]
    found = power_law(halves, list(rungs()))["multiplier"]
    assert list(found.values()) == pytest.approx([2.0] * 3, rel=0.02), (
        "the same losses with half the operations"
    )


def test_a_fit_is_scipy_s():
    x, losses = OPERATIONS / OPERATIONS[-1], np.array([3.1, 2.71, 2.52, 2.33])
    found = fit(x, losses[None])
    expected, _ = curve_fit(law, OPERATIONS, losses, (1.7, 0.8, 0.2), sigma=losses)
    assert np.ravel(found) == pytest.approx(expected, rel=0.05)
    best = (((law(OPERATIONS, *expected) - losses) / losses) ** 2).sum()
    assert (((found.loss(x)[0] - losses) / losses) ** 2).sum() == pytest.approx(best, rel=1e-3)


def test_bands_cover_what_is_true():
    covers = []
    for number in range(40):
        generator = np.random.default_rng(number)
        arm, baseline = (list(rungs(factor, 0.003, generator=generator)) for factor in (1.3, 1.0))
        found = power_law(arm, baseline)["multiplier"]
        covers.append((found["low"] or 0) <= 1.3 <= (found["high"] or np.inf))
    assert sum(covers) >= binom.ppf(0.001, len(covers), 0.95)


def test_one_seed_gives_a_law_without_a_band():
    found = power_law(list(rungs(seeds=1)), list(rungs(1 / 1.3, seeds=1)))
    assert found["multiplier"] == {"ratio": pytest.approx(1.3, rel=0.01), "low": None, "high": None}
    assert set(found["curve"]["low"]) == {None}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda steps: steps[1:], "at least 4 scales, and there are 3"),
        (lambda steps: [step._replace(operations=0.0) for step in steps], "not known"),
        (lambda steps: steps[::-1], "do not rise"),
        (lambda steps: [*steps[1:], Rung(1e15, np.array([2.0, np.nan]))], "diverged"),
        (lambda steps: [*steps[1:], Rung(1e15, np.array([]))], "no training"),
    ],
)
def test_what_is_no_ladder_has_no_law(change, note):
    found = power_law(change(list(rungs())))
    assert list(found) == ["note"]
    assert note in found["note"]


@pytest.fixture
def study(made_up):
    """Returns a study at four scales; `other` has the better loss of 1.3 times the operations."""
    names = ("baseline", "other", "worst")
    results = made_up({f"{n}: {name}": 0.5 for n in range(4) for name in names}, seeds=3, examples=20)
    arms = tuple(
        {
            **arm,
            "values": {"scale": arm["name"][0], "attention": arm["name"][3:]},
            "baseline": None if "baseline" in arm["name"] else f"{arm['name'][0]}: baseline",
            "cost": {**arm["cost"], "flops": 100.0},
        }
        for arm in results.arms
    )

    def trained(cell):
        scale, factor = int(cell.arm[0]), {"baseline": 1.0, "other": 1.3, "worst": 0.4}[cell.arm[3:]]
        score = {"baseline": 0.5, "other": 0.6, "worst": 0.3}[cell.arm[3:]]
        if scale == 0 and "other" in cell.arm:
            score = 0.4
        loss = float(law(factor * OPERATIONS[scale]))
        return {"loss": loss, "tokens": int(OPERATIONS[scale] / 300), "metrics": {"exact_match": score}}

    return with_cells(replace(results, arms=arms), trained)


def test_a_study_with_scales_has_laws_and_tells_which_scale_decides_as_the_largest(study):
    found = find(study)
    laws = {each["arm"]: each for each in found.record["laws"]}
    assert list(laws) == ["baseline", "other", "worst"]
    assert laws["other"]["scales"]["operations"] == pytest.approx(OPERATIONS)
    ratios = [each.get("multiplier", {}).get("ratio") for each in laws.values()]
    assert ratios == [None, pytest.approx(1.3, rel=0.01), pytest.approx(0.4, rel=0.01)]
    decisions = [
        (each["scale"], each["largest"], each["pairs"], each["by_metric"], each["by_loss"])
        for each in found.record["decision_accuracy"]
    ]
    assert decisions == [("0", "3", 3, 2, 3), ("1", "3", 3, 3, 3), ("2", "3", 3, 3, 3)]
    tied = with_cells(study, lambda cell: {"metrics": {"exact_match": 0.6}} if cell.arm == "3: worst" else {})
    decisions = find(tied).record["decision_accuracy"]
    counts = [(each["pairs"], each["by_metric"], each["by_loss"]) for each in decisions]
    assert counts == [(2, 0, 1), (2, 1, 1), (2, 1, 1)]
    floor = with_cells(study, lambda _: {"metrics": {"exact_match": 0.0}})
    assert find(floor).record["decision_accuracy"] == []
    lines = currency_sentences(found)
    text = "\n".join(lines)
    expected = (
        r"other: validation loss = 1\.\d{3} \+ 0\.\d{3} \(C / 6\.4e\+13\)\^-0\.\d{3} after C operations"
    )
    assert any(re.match(expected, line) for line in lines)
    assert "is worth 1.30 times the operations of the baseline (95 % band 1.30 to 1.30)." in text
    decided = "0 2 of 3 by exact_match, 3 by validation loss; 1 3 of 3"
    assert f"pairs of arms that are decided as at 3: {decided}" in text


def test_losses_that_fall_faster_than_a_law_can_are_worth_nothing(study):
    steep = tuple(
        replace(cell, loss=(3.0, 2.9, 2.6, 1.7)[int(cell.arm[0])] + cell.seed / 100) for cell in study.cells
    )
    text = "\n".join(currency_sentences(find(replace(study, cells=steep))))
    assert "other: validation loss = 0.000 + " in text
    assert "losses fall faster than such a law, which does not hold." in text
    assert "is worth" not in text


def test_a_study_without_scales_has_neither(made_up):
    record = find(made_up({"baseline": 0.5, "other": 0.5}, seeds=2, examples=20)).record
    assert (record["laws"], record["decision_accuracy"], record["signal_to_noise"]) == ([], [], [])


def test_noise_is_what_evaluations_deviate_from_a_falling_loss_by():
    generator = np.random.default_rng(0)
    falling = 3 / np.sqrt(np.arange(31, 41)) + 2
    arms = [
        [(falling + level + 0.001 * generator.standard_normal(10)).tolist() for _ in range(200)]
        for level in (0.0, 0.02, 0.05)
    ]
    found = signal_to_noise(arms)
    assert found["ratio"] == pytest.approx(0.05 / 0.001, rel=0.1)
    assert found["signal"] == pytest.approx(0.05 / 2.5, rel=0.02)
    assert signal_to_noise(arms[:1]) is None
    assert signal_to_noise([[curve[:9] for curve in arm] for arm in arms]) is None
    assert signal_to_noise([[[*curve[:9], None] for curve in arm] for arm in arms]) is None


def test_its_figures_show_laws_scales_and_costs(study):
    expected = {
        "operations": {"baseline", "other", "worst"},
        "over-scales": {"other", "worst"},
        "laws": {"baseline", "other", "worst"},
        "by-cost-3": {"3: baseline", "3: other", "3: worst"},
    }
    with draw(find(study), pytest.fail) as drawings:
        figures = {drawing.name: drawing.figure for drawing in drawings}
    for name, arms in expected.items():
        assert {text.get_text() for text in figures[name].legends[0].get_texts()} == arms
    panels = figures["over-training"].axes
    assert [axes.get_title() for axes in panels] == [each["arm"] for each in find(study).comparisons]
    results = {(cell.arm, cell.seed): cell for cell in study.cells}
    ours, theirs = (
        [results[f"0: {arm}", seed].curve[0]["loss"] for seed in (1, 2, 3)] for arm in ("other", "baseline")
    )
    assert panels[0].lines[1].get_ydata()[0] == pytest.approx(np.mean(ours) - np.mean(theirs))
    (law,) = [line for line in figures["laws"].axes[0].lines if line.get_label() == "other"]
    assert law.get_xdata()[-1] == pytest.approx(OPERATIONS[-1])


def test_figures_of_other_arms_outlive_one_without_an_interval(study):
    broken = tuple(
        replace(cell, failure="no memory", metrics={}) if cell.arm.endswith("worst") else cell
        for cell in study.cells
    )
    with draw(find(replace(study, cells=broken)), pytest.fail) as drawings:
        names = {drawing.name for drawing in drawings}
    assert {"over-scales", "laws", "over-training"} <= names


def test_no_arm_is_worth_anything_by_the_law_of_a_baseline_that_does_not_hold(study):
    steep = tuple(
        cell
        if cell.arm.endswith("other")
        else replace(cell, loss=(3.0, 2.9, 2.6, 1.7)[int(cell.arm[0])] + cell.seed / 100)
        for cell in study.cells
    )
    text = "\n".join(currency_sentences(find(replace(study, cells=steep))))
    assert "baseline: validation loss = 0.000 + " in text
    assert "is worth" not in text
