"""Schedules at points computed by hand."""

import pytest

from plugformer_plugins.schedule.warmup import (
    Constant,
    InverseSquareRoot,
    Noam,
    WarmupCosine,
    WarmupLinear,
    WarmupStableDecay,
)


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        (Constant(), 1, 1.0),
        (Constant(warmup_steps=4), 1, 0.25),
        (Constant(warmup_steps=4), 5, 1.0),
        # Width 64: 1/8 times min(step^-0.5, step * 16^-1.5 = step / 64).
        (Noam(warmup_steps=16), 1, 1 / 512),
        (Noam(warmup_steps=16), 16, 1 / 32),
        (Noam(warmup_steps=16), 64, 1 / 64),
        # 100 updates, 20 of warm-up: the cosine spans 80.
        (WarmupCosine(warmup_steps=20), 20, 1.0),
        (WarmupCosine(warmup_steps=20), 40, (1 + 0.5**0.5) / 2),
        (WarmupCosine(warmup_steps=20), 100, 0.0),
        (WarmupCosine(warmup_steps=20), 120, 0.0),
        (WarmupCosine(warmup_steps=20, final=0.2), 60, 0.6),
        (WarmupCosine(warmup_steps=20, final=0.2), 100, 0.2),
        (WarmupCosine(warmup_steps=0), 50, 0.5),
        (WarmupCosine(warmup_steps=200), 100, 0.5),
        (WarmupCosine(), 5, 0.5),  # a tenth of all updates, if nothing is said
        (WarmupCosine(warmup_steps=0.2), 60, 0.5),
        (Constant(warmup_steps=0.5), 25, 0.5),
        (Constant(warmup_steps=0.07), 7, 1.0),  # 0.07 * 100 is a little above 7
        (WarmupLinear(warmup_steps=20), 10, 0.5),
        (WarmupLinear(warmup_steps=20, final=0.2), 60, 0.6),
        (WarmupLinear(warmup_steps=20, final=0.2), 100, 0.2),
        (WarmupStableDecay(warmup_steps=20), 10, 0.5),
        (WarmupStableDecay(warmup_steps=20), 80, 1.0),
        (WarmupStableDecay(warmup_steps=20), 90, 0.5),
        (WarmupStableDecay(warmup_steps=20, decay_steps=40, final=0.1), 80, 0.55),
        (WarmupStableDecay(warmup_steps=20, final=0.1), 100, 0.1),
        (InverseSquareRoot(warmup_steps=16), 8, 0.5),
        (InverseSquareRoot(warmup_steps=16), 64, 0.5),
    ],
)
def test_by_hand(schedule, step, expected):
    assert schedule.factor(step, steps=100, width=64) == pytest.approx(expected)


def test_noam_peaks_at_the_papers_learning_rate():
    """Width 512 and 4,000 updates of warm-up: 512^-0.5 * 4000^-0.5, about 7e-4."""
    factors = [Noam().factor(step, steps=100_000, width=512) for step in range(1, 10_000)]
    assert max(factors) == factors[3999] == pytest.approx(6.99e-4, rel=1e-3)


def test_a_share_of_few_updates_is_rounded_up():
    assert [WarmupCosine().factor(step, steps=4, width=64) for step in (1, 2)] == pytest.approx([1.0, 0.75])
