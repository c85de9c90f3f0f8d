"""Main effects, interactions, and differences between scales."""

from dataclasses import replace

import numpy as np
import pytest
import yaml
from tests.ablation.studies import SETTINGS, run, written

from plugformer.errors import ConfigurationError
from plugformer_ablation.judging.contrasts import planned_contrasts
from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.report import StudyReport

SCALES = {"small": {"model.width": 16}, "large": {"model": {"width": 32}}}


def scaled(registry, path="model.attention", values=("mha", {"name": "gqa", "kv_heads": 1}), **others):
    """Returns a tiny study of one factor at two scales."""
    settings = dict(each.split("=") for each in SETTINGS if "width" not in each)
    changes = {key: yaml.safe_load(value) for key, value in settings.items()}
    study = {
        "task": "dates",
        "set": {**changes, "model.ffn_width": 32} if "match" not in others else changes,
        "factors": {"it": {"path": path, "values": list(values)}},
        "scales": SCALES,
        "seeds": 2,
        **others,
    }
    return written(registry, **study)


def grid(made_up, accuracies):
    """Returns a study of two factors with two values each, the baseline first, as accuracies say."""
    names = ("baseline", "b=1", "a=1", "a=1, b=1")
    results = made_up(dict(zip(names, accuracies, strict=True)))
    values = [{"a": a, "b": b} for a in ("a0", "a1") for b in ("b0", "b1")]
    arms = tuple({**arm, "values": each} for arm, each in zip(results.arms, values, strict=True))
    return replace(results, arms=arms)


def test_a_grid_has_main_effects_and_interactions(made_up):
    results = grid(made_up, (0.5, 0.5, 0.6, 0.8))
    found = {each["contrast"]: each for each in find(results).record["contrasts"]}
    scores = {
        arm["name"]: np.mean([c.metrics["exact_match"] for c in results.cells_of(arm["name"])])
        for arm in results.arms
    }
    base, b, a, both = scores.values()
    expected = {
        "main effect of a a1": (a + both - base - b) / 2,
        "main effect of b b1": (b + both - base - a) / 2,
        "interaction of a a1 and b b1": both - a - b + base,
    }
    assert {name: each["difference"] for name, each in found.items()} == pytest.approx(expected)
    assert all(each["level"] == pytest.approx(1 - 0.05 / 3) for each in found.values())
    assert all(each["low"] > 0 for each in found.values())
    assert "interaction of a a1 and b b1" in StudyReport(find(results)).text(None)


def test_arms_that_are_no_grid_have_no_contrasts(made_up):
    results = grid(made_up, (0.5, 0.5, 0.6, 0.8))
    assert planned_contrasts(results.arms[:3]) == []
    assert planned_contrasts(made_up({"baseline": 0.5, "other": 0.6}).arms) == []


def test_arms_are_matched_and_compared_within_a_scale(registry, tmp_path):
    study = scaled(registry, match="parameters")
    results, _ = run(study, tmp_path / "s", registry)
    gqa = "it=gqa(kv_heads=1)"
    assert [(arm["name"], arm["baseline"]) for arm in results.arms] == [
        ("small: baseline", None),
        (f"small: {gqa}", "small: baseline"),
        ("large: baseline", None),
        (f"large: {gqa}", "large: baseline"),
    ]
    small, of_small, large, of_large = (arm["cost"]["parameters"] for arm in results.arms)
    assert of_small == pytest.approx(small, rel=0.05)
    assert of_large == pytest.approx(large, rel=0.05)
    assert large > 1.5 * small
    findings = find(results)
    assert [(each["arm"], each["baseline"]) for each in findings.comparisons] == [
        (f"{scale}: {gqa}", f"{scale}: baseline") for scale in SCALES
    ]
    (contrast,) = findings.record["contrasts"]
    assert contrast["contrast"] == f"{gqa}, large against small"
    assert sum(contrast["weights"].values()) == 0
    text = StudyReport(findings).text(None)
    assert "at large, gqa(kv_heads=1)" in text
    assert "baseline: it mha" in text


def test_a_setting_of_a_scale_and_of_an_arm_is_refused(registry):
    with pytest.raises(ConfigurationError, match="is also changed by"):
        scaled(registry, "model.width", [16, 32])
