"""Screening: what goes on, what is confirmed, and how often either errs."""

import numpy as np
import pytest
from scipy import stats
from tests.ablation.studies import declared, run

from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.blocks import SCREENING_SEED, Screening
from plugformer_ablation.design.matching import matched
from plugformer_ablation.judging.comparison import ALPHA, Scores
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import StudyResults
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.reporting.sentences import heading, price
from plugformer_ablation.running.screening import discoveries, moderated

RATES = ("training.optimizer.lr=[0.0001, 0.00011, 0.1]",)
SETTINGS = ("evaluation.metrics=[perplexity]",)


def scores(values):
    return {str(arm): Scores(dict(enumerate(row))) for arm, row in enumerate(values.tolist())}


def test_an_error_over_examples_counts_where_all_seeds_differ_alike():
    """The same difference with two seeds leaves the error over examples alone."""
    arms = {"baseline": (0.5, 0.6), "same": (0.52, 0.62), "varies": (0.55, 0.59), "varies too": (0.5, 0.63)}

    def p(error):
        draws = {seed: error * np.random.default_rng(0).normal(size=500) for seed in (0, 1)}
        found = {
            name: Scores(
                dict(enumerate(row)), draws if name == "same" else dict.fromkeys((0, 1), 0 * draws[0]), 99
            )
            for name, row in arms.items()
        }
        return moderated(found, range(2))["same"]

    assert p(1.0) > 0.2 + p(0.001)


def test_arms_that_vary_alike_are_judged_by_the_deviation_of_all():
    """With 2,000 arms of one variance the test is nearly that of a known variance."""
    generator = np.random.default_rng(1)
    values = 5 * generator.normal(size=2) + generator.normal(size=(2001, 2))
    found = moderated(scores(values), range(2))
    differences = (values[1:] - values[0]).mean(axis=1)
    expected = 2 * stats.norm.sf(abs(differences))  # the variance of a difference of means of two is 1
    assert np.corrcoef(list(found.values()), expected)[0, 1] > 0.99


def test_a_baseline_that_varies_more_is_not_taken_to_vary_as_arms_do():
    """Its luck is in all differences: with a mean of 3 it would set every arm apart."""
    values = np.random.default_rng(3).normal(size=(201, 2))
    values[0] = (13.0, -7.0)
    assert min(moderated(scores(values), range(2)).values()) > 0.3


@pytest.mark.parametrize("spread", [0.0, 0.5], ids=["alike", "of their own"])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_few_of_the_arms_that_go_on_do_not_differ(share, spread):
    """Normal scores with what a seed does to all arms, and variances that are alike or not."""
    rates = []
    for number in range(60):
        generator = np.random.default_rng(number)
        gains = np.where(generator.random(81) < share, 6.0, 0.0)
        gains[0] = 0.0
        noise = np.exp(spread * generator.normal(size=(81, 1))) * generator.normal(size=(81, 3))
        kept = discoveries(
            moderated(scores(gains[:, None] + 3 * generator.normal(size=3) + noise), range(3)), 0.1
        )
        rates.append(sum(gains[int(arm)] == 0 for arm in kept) / max(len(kept), 1))
    assert np.mean(rates) < 0.1 + 2 * np.std(rates) / 60**0.5


@pytest.fixture(scope="module")
def done(registry, tmp_path_factory):
    study = declared(*RATES, settings=SETTINGS).model_copy(update={"screen": Screening(seeds=2, rate=0.4)})
    out = tmp_path_factory.mktemp("screening") / "s"
    return study, out, *run(study, out, registry)


def test_arms_that_seem_to_differ_are_confirmed_with_other_seeds(done, registry):
    study, out, results, begun = done
    cells = [cell.parent.name for cell in out.glob("cells/*/cell.json")]
    assert sum(f"seed-{SCREENING_SEED}" in cell for cell in cells) == 3
    assert [each["confirmed"] for each in results.screening] == [False, True]
    assert [arm["name"] for arm in results.arms] == ["baseline", "lr=0.1"]
    assert len(begun) == 3 * 2 + 2 * 2
    assert run(study, out, registry)[1] == [], "nothing is trained again"


def test_what_was_spent_counts_the_trainings_of_screening(done):
    _, _, results, _ = done
    findings = find(results)
    spent = findings.record["spent"]
    assert [spent[key] for key in ("trainings", "trials", "preparation")] == [4, 0, 6]
    assert spent["preparation_seconds"] > 0
    assert [arm["spent"]["preparation"] for arm in findings.record["arms"]] == [2, 2]
    assert " in 6 trainings for screening" in price(spent)


def test_verdicts_are_corrected_for_the_arms_that_went_on(done, tmp_path):
    _, _, results, _ = done
    findings = find(results)
    assert [each["level"] for each in findings.comparisons] == [1 - ALPHA]
    assert "1 of 2 arms are compared, the others were screened out by 2 seeds" in heading(findings)
    StudyReport(findings).write(tmp_path, print)
    again = StudyResults.load(tmp_path, Registry.discover())
    assert (again.screening, again.preparation) == (results.screening, results.preparation)
    assert find(again).record == findings.record


def test_a_screening_that_nothing_passes_is_a_report_too(done, registry, tmp_path):
    study, out, _, _ = done
    strict = study.model_copy(update={"screen": Screening(seeds=2, rate=1e-9)})
    findings = find(run(strict, out, registry)[0])
    assert findings.comparisons == []
    StudyReport(findings).write(tmp_path, print)
    assert "0 of 2 arms are compared" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "0 of 2 arms are compared" in StudyReport(findings).text(None)


def test_an_arm_or_a_baseline_without_all_scores_shows_no_difference():
    values = np.random.default_rng(2).normal(size=(30, 2))
    values[2, 1] = np.nan
    assert "2" not in moderated(scores(values), range(2))
    values[0, 0] = np.nan
    assert moderated(scores(values), range(2)) == {}


def test_screening_on_the_split_that_decides_is_refused(registry):
    study = declared(*RATES, split="validation", screen={"seeds": 2})
    with pytest.raises(ConfigurationError, match="screen: chooses on validation, which also decides"):
        matched(resolve_arms(study, registry), study, lambda _: None)


def test_an_arm_of_which_a_training_failed_goes_on(registry, tmp_path):
    study = declared(*RATES, settings=SETTINGS, screen={"seeds": 2})
    results, _ = run(study, tmp_path, registry, break_in=[f"baseline, seed {SCREENING_SEED}"])
    assert [each["p"] for each in results.screening] == [None, None]
    assert [each["confirmed"] for each in results.screening] == [True, True]
    assert results.failed
    told = StudyReport(find(results)).text(None)
    assert "baseline: a training of screening, or that trials start from, failed" in told
