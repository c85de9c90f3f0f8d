"""Comparisons of two arms: which tests they have, and verdicts with Bonferroni's correction by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from plugformer_ablation.judging.comparison import (
    PairedComparison,
    Scores,
    Verdict,
    compare,
    compare_at_looks,
    judge,
)
from plugformer_ablation.judging.looks import Look
from plugformer_ablation.judging.statistics import StudentT, resampled

SEEDS = range(1, 6)
EXAMPLES = 60
LOOK = Look(5, 0.05, 0.1)


def trials(right, seeds=SEEDS, resamples=300):
    """Returns an arm from which examples each seed has right, (seeds, examples)."""
    cells = [np.asarray(row, dtype=float)[:, None] for row in right]
    scores = resampled(cells, lambda rows: float(rows.mean()), resamples)
    return Scores(
        {seed: float(cell.mean()) for seed, cell in zip(seeds, cells, strict=True)},
        dict(zip(seeds, scores, strict=True)),
        len(cells[0]),
    )


def answers(share, seed, seeds=5):
    return np.random.default_rng(seed).random((seeds, EXAMPLES)) < share


def numbers(found):
    """Returns all numbers that a report may show of a comparison."""
    shown = [found.difference, found.p, found.effect_size]
    return [value for value in (*shown, *(found.interval(0.95) or ())) if value is not None]


def test_an_ordinary_comparison():
    ours, theirs = answers(0.8, 1), answers(0.6, 2)
    found = compare(trials(ours), trials(theirs), SEEDS)
    differences = ours.mean(1) - theirs.mean(1)
    over_seeds = stats.ttest_rel(ours.mean(1), theirs.mean(1))
    assert found.difference == pytest.approx(differences.mean())
    assert found.seeds.p == pytest.approx(over_seeds.pvalue)
    assert found.p == found.both.p >= found.seeds.p
    assert found.effect_size == pytest.approx(differences.mean() / differences.std(ddof=1))
    low, high = found.interval(0.95)
    below, above = over_seeds.confidence_interval(0.95)
    assert found.seeds.interval(0.95) == pytest.approx((below, above))
    assert low <= below < above <= high
    assert not found.notes


def test_seeds_and_examples_together_by_the_closed_form_of_a_mean():
    """Variances of seeds, of examples and of their interaction, estimated by a two-way analysis of variance.

    The mean of S seeds and N examples has the variance seeds/S + examples/N + interaction/SN. Its usual
    estimate is (MS seeds + MS examples - MS interaction) / SN.
    """
    generator = np.random.default_rng(3)
    seeds, examples = 6, 400
    effects = generator.normal(0, 0.03, (seeds, 1)) + generator.normal(0, 0.5, (1, examples))
    ours = effects + generator.normal(0, 0.7, (seeds, examples))
    arm, nothing = (trials(each, range(seeds), 2000) for each in (ours, np.zeros_like(ours)))
    found = compare(arm, nothing, range(seeds))
    rows, columns, whole = ours.mean(1), ours.mean(0), ours.mean()
    rest = ours - rows[:, None] - columns + whole
    squares = (
        examples * rows.var(ddof=1),
        seeds * columns.var(ddof=1),
        (rest**2).sum() / ((seeds - 1) * (examples - 1)),
    )
    expected = math.sqrt((squares[0] + squares[1] - squares[2]) / (seeds * examples))
    assert found.both.total_error == pytest.approx(expected, rel=0.05)
    assert found.interval(0.95) == found.both.interval(0.95)
    assert math.hypot(found.seeds.error, found.examples.error) > 1.05 * expected, (
        "counts what is in both twice"
    )


def test_one_seed_gives_an_interval_but_no_verdict():
    found = compare(trials(answers(0.9, 1, 1), [1]), trials(answers(0.5, 2, 1), [1]), [1])
    assert found.p is None
    assert found.effect_size is None
    assert found.interval(0.95) == found.examples.interval(0.95)
    assert any("no verdict from one seed" in note for note in found.notes)


def test_a_difference_that_is_the_same_with_every_seed():
    right = np.tile(answers(0.5, 1, 1), (5, 1))
    better = right.copy()
    better[:, np.flatnonzero(~right[0])[:10]] = True
    found = compare(trials(better), trials(right), SEEDS)
    assert found.seeds is None
    assert found.difference == pytest.approx(10 / EXAMPLES)
    share = 10 / EXAMPLES
    expected = stats.t.sf(share / math.sqrt(share * (1 - share) / EXAMPLES), 4) * 2
    assert found.p == pytest.approx(expected, rel=0.5)  # the error is a bootstrap's
    assert compare(trials(better), trials(right), [1, 2]).p > 0.1, "two equal differences show little"
    assert any("replaces that over seeds" in note for note in found.notes)
    assert all(map(math.isfinite, numbers(found)))


def test_from_nothing_to_everything():
    found = compare(trials(np.ones((5, EXAMPLES))), trials(np.zeros((5, EXAMPLES))), SEEDS)
    assert (found.difference, found.interval(0.99), found.p) == (1.0, (1.0, 1.0), 0.0)
    assert any("the error of the difference is unknown" in note for note in found.notes)
    assert all(map(math.isfinite, numbers(found)))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_floor_and_ceiling(value):
    arm = trials(np.full((5, EXAMPLES), value))
    found = compare(arm, arm, SEEDS)
    assert (found.p, found.interval(0.95)) == (1.0, None)
    assert any("floor or ceiling" in note for note in found.notes)
    assert all(map(math.isfinite, numbers(found)))


def test_failed_cells_and_scores_that_are_no_numbers_leave_fewer_pairs():
    ours, theirs = trials(answers(0.8, 1)), trials(answers(0.6, 2))
    failed = Scores(
        {seed: score for seed, score in ours.scores.items() if seed != 2}, ours.resampled, EXAMPLES
    )
    infinite = Scores({**theirs.scores, 4: math.inf}, theirs.resampled, EXAMPLES)
    found = compare(failed, infinite, SEEDS)
    kept = np.array([ours.scores[seed] - theirs.scores[seed] for seed in (1, 3, 5)])
    assert found.pairs == 3
    assert found.difference == pytest.approx(kept.mean())
    assert found.failed == ((2,), (4,))
    assert found.notes == (
        "failed: the arm with seed 2 of 5 (its score is nan), "
        "the baseline with seed 4 of 5 (its score is inf)",
    )


def without(arm, *seeds, reason="diverged"):
    """Returns an arm that failed with some seeds."""
    scores = {seed: score for seed, score in arm.scores.items() if seed not in seeds}
    return Scores(scores, arm.resampled, arm.examples, dict.fromkeys(seeds, reason))


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(
    ("arm_fails", "baseline_fails", "arm_is_better", "verdict"),
    [
        ((2, 4), (), True, "no verdict"),
        ((2, 4), (), False, "worse"),
        ((), (2, 4), True, "better"),
        ((), (2, 4), False, "no verdict"),
        ((2,), (4,), True, "no verdict"),
        ((2,), (4,), False, "no verdict"),
        ((2, 4), (), None, "no verdict"),
        ((), (2, 4), None, "no verdict"),
    ],
)
def test_a_verdict_in_favor_of_a_side_needs_all_its_seeds(
    higher, arm_fails, baseline_fails, arm_is_better, verdict
):
    shares = {True: (0.9, 0.5), False: (0.5, 0.9), None: (0.7, 0.7)}[arm_is_better]
    ours, theirs = (trials(answers(share if higher else 1 - share, n)) for n, share in enumerate(shares, 1))
    compared = compare(without(ours, *arm_fails), without(theirs, *baseline_fails), SEEDS)
    found = judge(compared, LOOK, higher_is_better=higher)
    assert found["verdict"] == verdict
    assert found["failed_seeds"] == {"arm": list(arm_fails), "baseline": list(baseline_fails)}
    assert "(diverged)" in found["notes"][0]


def test_no_pair_at_all():
    found = compare(Scores({}), trials(answers(0.5, 1)), SEEDS)
    assert (found.difference, found.pairs, found.p, found.interval(0.95)) == (None, 0, None, None)
    assert found.notes[-1] == "no verdict without a pair of scores"


@pytest.mark.parametrize("examples", [0, EXAMPLES - 1])
def test_examples_that_cannot_be_paired_leave_no_verdict(examples):
    ours, theirs = trials(answers(0.9, 1)), trials(answers(0.3, 2))
    found = compare(Scores(ours.scores, ours.resampled, examples), theirs, SEEDS)
    assert found.p is None
    assert found.seeds.p < 0.05
    assert any("test examples that both arms share" in note for note in found.notes)


def test_a_metric_without_a_number_on_some_resamples_leaves_no_verdict():
    ours, theirs = trials(answers(0.9, 1)), trials(answers(0.3, 2))
    broken = {seed: np.full_like(scores, np.nan) for seed, scores in ours.resampled.items()}
    found = compare(Scores(ours.scores, broken, EXAMPLES), theirs, SEEDS)
    assert found.p is None
    assert found.notes == ("no verdict: on some resampled test sets the metric gives no finite number",)


def with_p(p, difference=0.1):
    """Returns a comparison that has a given p."""
    both = StudentT(difference, abs(difference) / float(stats.t.isf(p / 2, 9)), 9.0)
    return PairedComparison(difference, 5, both, both, both)


def test_the_correction_by_hand():
    """0.05 / 4 is 0.0125: Holm's method would have found 0.013 as well, beside an interval with 0 in it."""
    look = Look(5, 0.05 / 4, 0.1 / 4)
    found = [judge(with_p(p), look, higher_is_better=True) for p in (0.04, 0.01, 0.3, 0.013)]
    assert [each["p"]["corrected"] for each in found] == pytest.approx([0.16, 0.04, 1.0, 0.052])
    assert [each["verdict"] == Verdict.BETTER for each in found] == [False, True, False, False]
    assert {each["level"] for each in found} == {1 - 0.05 / 4}


def test_verdict_p_and_interval_never_contradict_each_other():
    generator = np.random.default_rng(1)
    for p, difference in generator.uniform((0, -1), (0.06, 1), (500, 2)).tolist():
        each = judge(with_p(p, difference), Look(5, 0.01, 0.02), higher_is_better=True)
        different = each["verdict"] in (Verdict.BETTER, Verdict.WORSE)
        assert different is (each["low"] > 0 or each["high"] < 0) is (each["p"]["corrected"] <= 0.05)
        assert different or each["verdict"] == Verdict.NOT_DISTINGUISHABLE


def test_differences_that_cancel_over_seeds_have_no_negative_variance():
    """The mean of their covariances is 0, or, since sums are rounded, a little below."""
    for number in range(20):
        moved = np.random.default_rng(number).integers(0, 40, (2, 500)) / 40
        moved = np.concatenate([moved, -moved.sum(axis=0, keepdims=True)])
        scores = dict(enumerate(moved[:, 0].tolist()))
        arm = Scores(scores, dict(enumerate(moved)), 40)
        baseline = Scores(dict.fromkeys(scores, 0.0), dict.fromkeys(scores, np.zeros(500)), 40)
        assert compare(arm, baseline, range(3)).examples.error == pytest.approx(0, abs=1e-6)


def test_equal_scores_are_equivalent_only_within_the_error_over_examples():
    """Ten of a hundred examples are decided the other way, five in favor of each."""
    ours, theirs = np.zeros(100), np.zeros(100)
    ours[:50] = theirs[5:55] = 1
    rows = resampled([ours[:, None], theirs[:, None]], lambda rows: float(rows.mean()))
    sides = [Scores({1: 0.5, 2: 0.6}, {1: row, 2: row + 0.1}, 100) for row in rows]
    found = compare(*sides, (1, 2))
    assert found.identical
    assert found.verdict(LOOK, 0.01, higher_is_better=True) == Verdict.UNDECIDED
    assert found.verdict(LOOK, 0.9, higher_is_better=True) == Verdict.EQUIVALENT


def test_rates_of_divergence_are_of_each_sides_own_trainings():
    arm = Scores({2: 0.5}, failures={1: "it was lost"})
    baseline = Scores({1: 0.1, 2: 0.1}, diverged=frozenset({1, 2}))
    found = compare(arm, baseline, (1, 2))
    assert (found.pairs, found.trained) == (1, (1, 2))
    assert 0 < found.p_diverged <= 1


def test_a_share_is_one_of_the_seeds_of_the_look():
    """Seeds that only the baseline has, because others need it, do not change what was decided."""
    looks = [Look(2, 0.05, 0.1), Look(4, 0.05, 0.1)]
    arm, baseline = Scores({1: 1.0, 2: 1.0}), Scores({1: 1.0, 2: 1.0, 3: 0.1, 4: 0.1})
    _, look, smallest = compare_at_looks(arm, baseline, (1, 2, 3, 4), looks, "10 %", higher_is_better=True)
    assert (look.seeds, smallest) == (2, pytest.approx(0.1))


def test_a_side_without_any_score_has_no_rate_of_divergence():
    arm = Scores({}, failures={1: "it was lost", 2: "it was lost"})
    baseline = Scores({1: 0.1, 2: 0.1}, diverged=frozenset({1}))
    assert compare(arm, baseline, (1, 2)).p_diverged is None


def test_a_level_that_rounds_to_0_decides_nothing():
    found = compare(*(Scores({1: value, 2: value + 0.1, 3: value}) for value in (0.5, 0.9)), (1, 2, 3))
    judged = judge(found, Look(3, 0.0, 0.0), higher_is_better=True)
    assert judged["p"]["corrected"] is None or judged["p"]["corrected"] == 1.0
    assert judged["would_decide"] is None
