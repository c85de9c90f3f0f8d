"""The paired bootstrap against closed forms and against sacreBLEU's own."""

import numpy as np
import pytest
from sacrebleu.metrics import bleu
from sacrebleu.significance import PairedTest

from plugformer_ablation.comparison import Scores, compare
from plugformer_ablation.statistics import resampled
from plugformer_plugins.metric.bleu import BLEU
from plugformer_plugins.metric.macro_f1 import MacroF1


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
