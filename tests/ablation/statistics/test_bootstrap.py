"""The paired bootstrap against closed forms and against sacreBLEU's own."""

import numpy as np
import pytest
from sacrebleu.metrics import bleu
from sacrebleu.significance import PairedTest

from plugformer.ablation.statistics.bootstrap import Bootstrap, resampled, resamples_for
from plugformer_plugins.metric.bleu import BLEU
from plugformer_plugins.metric.macro_f1 import MacroF1


def mean(statistics):
    return float(statistics.mean())


def bootstrap_of(ours, theirs, aggregate, resamples=2000, seed=0):
    one, other = resampled([ours, theirs], aggregate, resamples, seed)
    difference = aggregate(ours) - aggregate(theirs)
    return Bootstrap(difference, np.abs(one - other - difference), len(ours))


def test_the_error_of_a_mean_is_the_one_known_in_closed_form():
    generator = np.random.default_rng(1)
    ours, theirs = generator.random((2, 400, 1)) < np.array([0.7, 0.6])[:, None, None]
    found = bootstrap_of(ours.astype(float), theirs.astype(float), mean)
    paired = ours.astype(float) - theirs
    assert found.student.error == pytest.approx(paired.std() / 20, rel=0.06)
    assert found.interval(0.95)[1] - found.difference == pytest.approx(1.96 * paired.std() / 20, rel=0.1)


def test_draws_are_seeded_and_the_same_for_all_cells():
    statistics = np.random.default_rng(2).random((50, 1))
    one, other, third = resampled([statistics, statistics, 1 - statistics], mean, 100)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(third, 1 - one)
    np.testing.assert_array_equal(one, resampled([statistics], mean, 100)[0])
    assert (one != resampled([statistics], mean, 100, seed=1)[0]).any()


@pytest.fixture(scope="module")
def translations():
    """A reference corpus and two systems that lose words of it, one more than the other."""
    generator = np.random.default_rng(3)
    words = [f"w{number}" for number in range(30)]
    references = [" ".join(generator.choice(words, 12)) for _ in range(120)]

    def spoilt(share):
        return [
            " ".join(generator.choice(words) if generator.random() < share else word for word in line.split())
            for line in references
        ]

    return references, spoilt(0.10), spoilt(0.13)


def test_bleu_is_tested_as_sacrebleu_tests_it(translations, monkeypatch):
    references, ours, theirs = translations
    monkeypatch.setenv("SACREBLEU_SEED", "1")
    scorer = bleu.BLEU(references=[references])
    systems = [("theirs", theirs), ("ours", ours)]
    _, scores = PairedTest(systems, {"BLEU": scorer}, None, test_type="bs", n_samples=2000)()
    expected = scores["BLEU"][1]
    metric = BLEU()
    answers = [[line] for line in references]
    found = bootstrap_of(*(metric.statistics(each, answers) for each in (ours, theirs)), metric.aggregate)
    assert 0.005 < expected.p_value < 0.3, "an easy case would show nothing"
    assert found.p == pytest.approx(2 * expected.p_value, abs=0.03)  # sacreBLEU's test has one side
    (resamples,) = resampled([metric.statistics(ours, answers)], metric.aggregate, 2000)
    assert (np.quantile(resamples, 0.975) - np.quantile(resamples, 0.025)) / 2 == pytest.approx(
        expected.ci, rel=0.08
    )


def test_numbers_of_classes_are_never_averaged():
    """Macro F1 of two cells whose mean statistics would name classes that nobody predicted."""
    right = ["a", "b", "c", "c"] * 20
    metric = MacroF1()
    cells = [metric.statistics(guesses * 20, [[each] for each in right]) for guesses in ("aacc", "cbcc")]
    scores = resampled(cells, metric.aggregate, 200)
    for statistics, found in zip(cells, scores, strict=True):
        assert abs(found.mean() - metric.aggregate(statistics)) < 0.05


@pytest.mark.parametrize("difference", [0.0, 0.01, 0.03, 0.1])
def test_the_interval_excludes_zero_just_where_p_is_small(difference):
    deviations = np.abs(np.random.default_rng(4).normal(0, 0.02, 999))
    found = Bootstrap(difference, deviations, 100)
    for level in (0.5, 0.9, 0.95, 0.99):
        low, _ = found.interval(level)
        assert (low > 0) is (found.p <= 1 - level + 1e-12)


def test_p_by_hand():
    found = Bootstrap(2.0, np.array([0.0, 1.0, 2.0, 3.0, np.inf]), 10)
    assert found.p == (1 + 3) / (1 + 5)
    assert Bootstrap(0.0, np.zeros(9), 10).p == 1.0
    assert Bootstrap(1.0, np.zeros(9), 10).p == 0.1


def test_many_comparisons_take_more_resamples():
    assert resamples_for(1) == resamples_for(10) == 2000
    assert resamples_for(40) == 8000
