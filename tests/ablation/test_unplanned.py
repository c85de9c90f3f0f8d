"""What reports of one folder on the same comparisons may err, one by one and together."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtr
from scipy.stats import binom
from tests.ablation.studies import with_cells
from tests.ablation.test_contrasts import grid

from plugformer_ablation.judging.comparison import ALPHA, Verdict
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.unplanned import family_of, pair_hashes, with_look
from plugformer_ablation.reporting.sentences import contrast_sentences, explanation, heading

TEN = {"baseline": 0.7, **{f"arm {number}": 0.7 for number in range(10)}}


@pytest.fixture(scope="module")
def folder(made_up):
    """Returns a function that makes reports of one folder on some of ten arms, and one that forgets them."""
    results, looks = made_up(TEN, seeds=4, examples=40), []

    def report(seeds, *arms, planned=None, smallest=None, kept=None, split="test", **settings):
        more = {"split": split, **(kept or {})}
        kept = [arm for arm in results.arms if arm["name"] in ("baseline", *(arms or TEN))]
        changed = tuple({**arm, **more, "task": {**arm["task"], **settings}} for arm in kept)
        study = {**results.study, "seeds": list(range(1, seeds + 1)), "looks": planned or [seeds]}
        study["smallest_effect"] = smallest
        cells = tuple(cell for cell in results.cells if cell.seed <= seeds)
        found = find(replace(results, study=study, arms=changed, cells=cells, looks=tuple(looks)))
        looks[:] = found.record["looks"]
        return found

    return report, looks.clear


def chances(found):
    """Returns what each interval may err, in shares of all that a study may."""
    return [pytest.approx((1 - comparison["level"]) / ALPHA) for comparison in found.comparisons]


def test_an_arm_that_was_chosen_pays_for_the_others(folder):
    report, clear = folder
    clear()
    report(3)
    assert chances(report(3, "arm 4")) == [1 / 10], "the same seeds test nothing new"
    alone = report(4, "arm 4")
    assert chances(alone) == [1 / 20]
    assert "(2 looks at this study)" in heading(alone)
    told = " ".join(explanation(alone))
    assert "it, corrected for the 10 of all reports of this study, holds with 97.5 %" in told
    assert "There were 2 looks at this study (3, 4 seeds)" in told
    assert "5 %, 2.5 %, and that of any of them is at most 7.5 %" in told
    assert report(4, "arm 4").record == alone.record, "the same command says the same"


def test_what_seeds_choose_makes_no_other_arm_but_what_they_choose_from_does(made_up):
    results = made_up({"mha": 0.7, "mqa": 0.7}, seeds=3, examples=20)

    def hashes(values, chosen):
        study = {**results.study, "tune": {"lr": values}, "tuning": {"seeds": "each"}}
        arms = [{**arm, "choices": [{"tuned": {"lr": chosen}}]} for arm in results.arms]
        return pair_hashes(study, arms, [])

    assert hashes([1, 2], 1) == hashes([1, 2], 2) != hashes([1, 2, 3], 1)
    assert hashes([1, 2], 1) != pair_hashes(results.study, results.arms, [])


@pytest.mark.parametrize("other", [{"training": {"steps": 50}}, {"split": "validation"}])
def test_a_trial_with_other_settings_or_on_another_split_costs_nothing(folder, other):
    report, clear = folder
    clear()
    report(2, **other)
    found = report(3)
    assert chances(found) == [1 / 10] * 10
    assert len(found.looks) == 1
    assert len(found.record["looks"]) == 2


@pytest.mark.parametrize("other", [{"metric": "first_half"}, {"test_set": "more"}, {"made_of": "edited"}])
def test_another_metric_other_examples_and_edited_code_are_other_looks(folder, other):
    report, clear = folder
    clear()
    report(3, "arm 4")
    assert chances(report(3, "arm 4", kept=other)) == [1 / 2]
    assert chances(report(3, "arm 4", kept=other)) == [1 / 2], "the same once more tests nothing new"
    assert chances(report(3, "arm 4")) == [1]


def test_a_smallest_effect_that_is_chosen_after_a_result_shows_no_equivalence(folder):
    report, clear = folder
    clear()
    assert report(4, "arm 4", smallest=0.5).comparisons[0]["verdict"] == Verdict.EQUIVALENT
    clear()
    report(4, "arm 4")
    late = report(4, "arm 4", "arm 5", smallest=0.5)
    assert [each["verdict"] for each in late.comparisons] == [Verdict.NOT_DISTINGUISHABLE, Verdict.EQUIVALENT]
    assert "had another smallest effect, or none" in " ".join(explanation(late))
    clear()
    report(3, "arm 4", smallest=0.5)
    report(4, "arm 4", smallest=0.6)
    assert report(4, "arm 4", smallest=0.5).comparisons[0]["verdict"] == Verdict.EQUIVALENT, (
        "the first counts"
    )


def test_one_seed_judges_nothing_but_chooses(folder):
    report, clear = folder
    clear()
    report(1)
    found = report(3, "arm 4")
    assert chances(found) == [1 / 10]
    assert len(found.looks) == 1


def test_an_arm_that_is_added_is_another_look_for_itself_alone(folder):
    report, clear = folder
    clear()
    report(3, "arm 1", "arm 2")
    assert chances(report(3, "arm 2", "arm 3")) == [1 / 3, 1 / 6]


def test_another_plan_of_looks_is_another_look(folder):
    report, clear = folder
    clear()
    report(4, "arm 1", planned=[2, 4])
    assert chances(report(4, "arm 1")) == [1 / 2]


def test_arms_one_after_the_other_against_one_baseline_are_looks(folder):
    report, clear = folder
    clear()
    report(3, "arm 1")
    assert chances(report(3, "arm 2")) == [1 / 4]
    assert chances(report(3, "arm 1", "arm 2")) == [1 / 2, 1 / 4]
    assert chances(report(4, "arm 1")) == [1 / 8]


def test_studies_that_are_joined_have_spent_what_both_have():
    plan = {"seeds": [1, 2], "looks": [2], "smallest_effect": None}
    looks = []
    for pairs in ({"a": "1-2"}, {"b": "3-4"}, {"a": "1-2", "b": "3-4", "both": "5"}):
        looks = with_look(pairs, looks, plan, dict.fromkeys(pairs, Verdict.BETTER), pairs)
    assert [look["chance"] for look in looks] == [ALPHA, ALPHA, ALPHA / 4]
    assert family_of({"a": "1-2"}, looks, plan, {"a": "1-2"}).number == 3
    assert family_of({"c": "6-7"}, looks, plan, {"c": ""}).chances == {"c": ALPHA}


def test_contrasts_and_further_metrics_pay_for_looks(made_up):
    results = grid(made_up, (0.5, 0.5, 0.6, 0.8))
    study = {**results.study, "metrics": ["exact_match"]}
    few = tuple(cell for cell in results.cells if cell.seed < 4)
    first = find(replace(results, study={**study, "seeds": [1, 2, 3], "looks": [3]}, cells=few))
    planned = find(replace(results, study={**study, "looks": [4, 8]})).record["contrasts"]
    assert [each["level"] for each in planned] == [pytest.approx(1 - ALPHA / 3 / 2)] * 3
    found = find(replace(results, study=study, looks=tuple(first.record["looks"])))
    assert [each["level"] for each in found.record["contrasts"]] == [pytest.approx(1 - ALPHA / 3 / 2)] * 3
    levels = [comparison["further"]["exact_match"]["level"] for comparison in found.comparisons]
    assert levels == [pytest.approx(1 - ALPHA / 3 / 2)] * 3


@pytest.mark.parametrize("broken", ["failure", "diverged"])
def test_a_contrast_with_a_failed_training_does_not_differ(made_up, broken):
    results, changes = grid(made_up, (0.5, 0.5, 0.6, 0.8)), {("a=1", 2): {broken: "lost"}}
    found = find(with_cells(results, lambda cell: changes.get((cell.arm, cell.seed), {})))
    for line in contrast_sentences(found):
        assert line.endswith("not shown to differ from 0; a=1 failed or diverged with seed 2.")
    assert any("differs from 0" in line for line in contrast_sentences(find(results)))


def test_contrasts_of_one_seed_show_nothing(made_up):
    results = grid(made_up, (0.5, 0.5, 0.6, 0.9))
    few = tuple(cell for cell in results.cells if cell.seed == 1)
    found = find(replace(results, study={**results.study, "seeds": [1], "looks": [1]}, cells=few))
    assert all(line.endswith(": cannot be told.") for line in contrast_sentences(found))


STRATEGIES = {
    "ten, then the best alone": [(10, 0, 5), (1, 0, 10)],
    "twenty, then the best alone, twice": [(20, 0, 5), (1, 0, 10), (1, 0, 20)],
    "the best beside five new ones": [(10, 0, 5), (1, 5, 5), (2, 0, 10)],
    "one after the other": [(1, 0, 5), *[(0, 1, 5)] * 9],
}
"""Reports after each other: how many of the best so far, how many new ones, and with how many seeds."""


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_reports_of_a_folder_err_as_rarely_as_they_say(strategy):
    generator, studies, erred, said = np.random.default_rng(0), 3000, 0, 0.0
    for _ in range(studies):
        scores = generator.normal(size=(31, 20))
        looks, arms, unused, wrong = [], [], 1, False
        for best, new, seeds in strategy:
            fresh = range(unused, unused + (new if arms else best))
            unused += len(fresh)
            arms = [*arms[:best], *fresh]
            differences = scores[arms, :seeds] - scores[0, :seeds]
            t = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / np.sqrt(seeds))
            p = dict(zip(arms, 2 * stdtr(seeds - 1, -abs(t)), strict=True))
            pairs, plan = (
                {str(arm): f"0-{arm}" for arm in arms},
                {"seeds": [seeds], "looks": [seeds], "smallest_effect": None},
            )
            family = family_of(pairs, looks, plan, pairs)
            wrong |= any(p[arm] < family.chances[str(arm)] / family.number for arm in arms)
            looks = with_look(pairs, looks, plan, dict.fromkeys(pairs, Verdict.NOT_DISTINGUISHABLE), pairs)
            arms.sort(key=p.__getitem__)
        erred, said = erred + wrong, sum(look["chance"] for look in looks)
    assert erred <= binom.ppf(0.999, studies, said), erred / studies


def test_other_test_examples_are_another_look():
    plan, pairs = {"seeds": [1, 2], "looks": [2], "smallest_effect": None}, {"a": "1-2"}
    looks = with_look(pairs, [], plan, {"a": Verdict.UNDECIDED}, {"a": "few"})
    assert family_of(pairs, looks, plan, {"a": "few"}).chances == {"a": ALPHA}
    assert family_of(pairs, looks, plan, {"a": "more"}).chances == {"a": ALPHA / 2}
    more = with_look(pairs, looks, plan, {"a": Verdict.BETTER}, {"a": "more"})
    assert [look["chance"] for look in more] == [ALPHA, ALPHA / 2]
