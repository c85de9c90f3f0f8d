"""Student's t against scipy's own tests, power against simulation, the bootstrap against sacreBLEU's."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sacrebleu.metrics import bleu
from sacrebleu.significance import PairedTest
from scipy import stats

from plugformer_ablation.judging.comparison import Scores, compare
from plugformer_ablation.judging.statistics import StudentT, resampled
from plugformer_plugins.metric.f1 import MacroF1
from plugformer_plugins.metric.sacrebleu import BLEU


def test_an_example_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3); t is 3.464 at 2 degrees of freedom."""
    found = StudentT.of(np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.error) == pytest.approx((2, 3**-0.5))
    assert found.p == pytest.approx(0.0742, abs=5e-5)  # t table
    assert found.interval(0.95) == pytest.approx((2 - 4.3027 * 3**-0.5, 2 + 4.3027 * 3**-0.5), abs=1e-4)


def test_the_margin_of_two_sources_by_hand():
    """t at 97.5 % is 2.776 with 4 degrees of freedom and 1.984 with 100."""
    found = StudentT(0.4, 0.3, 4.0, StudentT(0.4, 0.4, 100.0))
    margin = (0.4 - found.interval(0.95)[0], found.interval(0.95)[1] - 0.4)
    assert margin == pytest.approx([(0.3**2 * 2.776**2 + 0.4**2 * 1.984**2) ** 0.5] * 2, rel=1e-3)
    assert found.total_error == pytest.approx(0.5)


@pytest.mark.parametrize("difference", [0.0, 0.01, 0.4, 2.0, 1e6])
def test_p_is_where_the_interval_begins_to_exclude_zero(difference):
    found = StudentT(difference, 0.3, 1.0, StudentT(difference, 0.4, 100.0))
    assert 0 <= found.p <= 1
    for level in (0.01, 0.5, 0.95, 0.9995):
        assert (found.interval(level)[0] > 0) is (found.p < 1 - level)


@pytest.mark.parametrize(("seeds", "share"), [(2, 0.5), (3, 0.9), (5, 0.2), (5, 0.7), (10, 0.5)])
def test_two_sources_find_nothing_too_often_and_what_they_promise(seeds, share):
    """Of seeds, which are few, comes this share of the variance; the error over examples is known well."""
    alpha, count, generator = 0.0125, 20_000, np.random.default_rng(seeds)
    drawn = generator.normal(0, (seeds * share) ** 0.5, (count, seeds))
    differences = drawn.mean(1) + generator.normal(0, (1 - share) ** 0.5, count)
    errors = drawn.std(1, ddof=1) / seeds**0.5
    squares = (StudentT(0.0, 1.0, seeds - 1.0).margin(alpha), StudentT(0.0, 1.0, 999.0).margin(alpha))
    margins = np.hypot(errors * squares[0], (1 - share) ** 0.5 * squares[1])
    assert (abs(differences) > margins).mean() < 1.15 * alpha
    other = StudentT(0.0, (1 - share) ** 0.5, 999.0)
    promised = StudentT(0.0, share**0.5, seeds - 1.0, other).detectable_difference(alpha)
    assert (differences + promised > margins).mean() == pytest.approx(0.8, abs=0.03)


def test_two_seeds_and_thousands_of_comparisons():
    """With one degree of freedom the error is the absolute value of a normal variable."""
    detectable = StudentT(0.0, 0.02, 1.0).detectable_difference(0.05 / 4_999)
    critical = 1 / math.tan(math.pi * 0.05 / 4_999 / 2)  # Cauchy's distribution
    assert detectable == pytest.approx(0.02 * critical * stats.norm.ppf(0.9), rel=1e-3)


def mean(statistics):
    return float(statistics.mean())


def over_examples(ours, theirs, aggregate):
    """Returns the difference of two cells with its error over examples."""
    scores = resampled([ours, theirs], aggregate)
    trials = [
        Scores({1: aggregate(rows)}, {1: each}, len(rows))
        for rows, each in zip((ours, theirs), scores, strict=True)
    ]
    return compare(*trials, [1]).examples


def test_the_error_of_a_mean_is_the_one_known_in_closed_form():
    generator = np.random.default_rng(1)
    ours, theirs = generator.random((2, 400, 1)) < np.array([0.7, 0.6])[:, None, None]
    found = over_examples(ours.astype(float), theirs.astype(float), mean)
    paired = ours.astype(float) - theirs
    assert found.error == pytest.approx(paired.std() / 20, rel=0.06)
    assert found.freedom == 399


def test_draws_are_seeded_and_the_same_for_all_cells():
    statistics = np.random.default_rng(2).random((50, 1))
    one, other, third = resampled([statistics, statistics, 1 - statistics], mean, 100)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(third, 1 - one)
    np.testing.assert_array_equal(one, resampled([statistics], mean, 100)[0])
    assert (one != resampled([statistics], mean, 100, seed=1)[0]).any()


@pytest.mark.parametrize(
    ("aggregate", "at_once"),
    [(mean, True), (lambda rows: float(np.exp(rows.mean())), False), (np.max, False)],
)
def test_means_of_all_cells_at_once_are_those_of_each(aggregate, at_once, monkeypatch):
    cells = np.random.default_rng(2).random((3, 300, 1))
    calls = []
    together = resampled(cells, lambda rows: calls.append(1) or aggregate(rows), 50)
    assert (len(calls) < 3 * 50) is at_once
    monkeypatch.setattr(
        "plugformer_ablation.judging.statistics._TRIED", 50
    )  # every draw is made cell by cell
    np.testing.assert_array_equal(together, resampled(cells, aggregate, 50))


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
    found = over_examples(*(metric.statistics(each, answers) for each in (ours, theirs)), metric.aggregate)
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


def test_what_is_found_at_a_tiny_level_follows_from_the_deviation_alone():
    """Where the distribution function of the noncentral t gives NaN; beside it, the limit continues it."""
    sizes = [StudentT(1.0, 1.0, 2.0).detectable_difference(alpha) for alpha in (1e-7, 1e-8, 1e-9, 1e-12)]
    ratios = [after / before for before, after in pairwise(sizes)]
    assert ratios[:2] == pytest.approx([10**0.5, 10**0.5], rel=2e-3)
    assert ratios[2] == pytest.approx(10**1.5, rel=2e-3)
