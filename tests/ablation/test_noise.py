"""Noise: pairs of trainings that differ by luck, and what can be found beforehand."""

import json
import math

import pytest
from rich.console import Console
from scipy import stats
from tests.ablation.studies import Inline, declared, run

from plugformer.runs import read_json
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.matching import matched
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.looks import planned_looks
from plugformer_ablation.running.noise import NOISE, measure_noise, noise_text, planned_noise

PERPLEXITY = ("evaluation.metrics=[perplexity]",)


@pytest.fixture(scope="module")
def measured(registry, tmp_path_factory):
    study, out = declared(settings=PERPLEXITY, smallest_effect="1 %"), tmp_path_factory.mktemp("noise") / "s"
    executor = Inline()
    return study, out, measure_noise(study, out, registry, executor, Console(quiet=True)), executor.begun


def test_pairs_share_their_seed_and_the_study_uses_one_of_the_two_again(measured, registry):
    study, out, (noise,), begun = measured
    assert sorted(begun) == sorted(
        f"{name}, seed {n}" for name in ("baseline", "baseline, again") for n in (1, 2, 3, 4, 5)
    )
    cells = [(cell.parent.name.split("-seed-")[0], read_json(cell)) for cell in out.glob("cells/*/cell.json")]
    scores = {(name, cell["seed"]): cell["metrics"]["perplexity"] for name, cell in cells}
    once, again = ([scores[name, seed] for seed in range(1, 6)] for name in ("baseline", "baseline,-again"))
    squares = sum((a - b) ** 2 for a, b in zip(once, again, strict=True))
    assert 0 < noise["deviation"] == pytest.approx(math.sqrt(squares / 5))
    below, above = (stats.chi2.ppf(share, 5) for share in (0.975, 0.025))
    assert (noise["low"], noise["high"]) == pytest.approx(
        (math.sqrt(squares / below), math.sqrt(squares / above))
    )
    assert noise["smallest"] == pytest.approx(0.01 * sum(once) / 5)
    rest = run(study, out, registry)[1]
    assert rest == ["attention=gqa(kv_heads=1), seed 1", "attention=gqa(kv_heads=1), seed 2"]


@pytest.mark.parametrize("looks", [(3, 5, 8), (5,)])
def test_what_is_found_is_found_four_times_in_five(measured, registry, looks):
    """The power of paired t tests, from scipy, at the level of one of three comparisons."""
    _, out, (noise,), _ = measured
    (out / NOISE).write_text(json.dumps([{**noise, "error": 0.0}]))
    seeds = {"looks": list(looks)} if len(looks) > 1 else looks[0]
    arms = "model.attention=[mha, mqa, {name: gqa, kv_heads: 1}, mla]"
    other = declared(arms, settings=PERPLEXITY, seeds=seeds)
    (planned,) = planned_noise(other, out, resolve_arms(other, registry))
    levels = {look.seeds: look.alpha for look in planned_looks(looks, 0.05 / 3)}
    assert [each["seeds"] for each in planned["detectable"]] == (
        [*looks] if len(looks) > 1 else [3, 5, 8, 12]
    )
    for each in planned["detectable"]:
        number = each["seeds"]
        assert each["alpha"] == levels.get(number, 0.05 / 3)
        critical = stats.t.ppf(1 - each["alpha"] / 2, number - 1)
        shift = each["difference"] * math.sqrt(number) / noise["deviation"]
        assert stats.nct.sf(critical, number - 1, shift) == pytest.approx(0.8, abs=1e-6)
        assert each["low"] / each["difference"] == pytest.approx(noise["low"] / noise["deviation"])


def test_test_examples_blur_what_is_found_however_many_seeds_there_are(measured, registry):
    study, out, (noise,), _ = measured
    blurred = {**noise, "deviation": 0.0, "low": 0.0, "high": 0.0, "error": 1.0, "examples": 10_001}
    (out / NOISE).write_text(json.dumps([blurred]))
    (planned,) = planned_noise(study, out, resolve_arms(study, registry))
    assert "nothing varied" in noise_text([planned])
    normal = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    found = [each["difference"] for each in planned["detectable"]]
    assert found == pytest.approx([normal] * len(found), rel=1e-3)


def test_earlier_reports_have_spent_a_part_of_what_may_err(measured, registry, tmp_path):
    study, out, (noise,), _ = measured
    looks = find(run(study, out, registry)[0]).record["looks"]
    (tmp_path / NOISE).write_text(json.dumps([noise]))
    more = declared(settings=PERPLEXITY, smallest_effect="1 %", seeds=4)
    arms = matched(resolve_arms(more, registry), more, str)

    def alphas():
        (planned,) = planned_noise(more, tmp_path, arms)
        return {each["alpha"] for each in planned["detectable"]}

    assert alphas() == {0.05}
    (tmp_path / "report.json").write_text(json.dumps({"looks": looks}))
    assert alphas() == {0.025}


def test_noise_of_another_baseline_is_not_told(measured, registry):
    study, out, (noise,), _ = measured
    (out / NOISE).write_text(json.dumps([noise]))
    longer = declared(settings=(*PERPLEXITY, "training.steps=7"))
    assert planned_noise(longer, out, resolve_arms(longer, registry)) == []
    told = noise_text(planned_noise(study, out, resolve_arms(study, registry)))
    assert "than the" in told.splitlines()[1]
