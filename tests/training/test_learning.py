"""Copying is learned, every time, from a random seed."""

import random

import pytest

from plugformer.training.train import train

SHORT = (
    "data.numbers=5",
    "data.symbols=6",
    "data.size=4000",
    "data.held_out=200",
    "model.layers=1",
    "model.dropout=0.0",
    "model.position=rope",
    "model.decoder.cross_attention.position=rope",
    "training.steps=400",
    "training.batch_size=64",
    "training.optimizer={name: adam, lr: 0.005}",
    "training.schedule={name: warmup_cosine, warmup_steps: 40}",
    "training.evaluate_every=400",
    "evaluation.limit=20",
)
"""Five of six numbers, where each position reads its like: learned in a few seconds."""

COPIED = 0.99
"""What has learned to copy repeats at least these of all sequences; what has not, next to none.

From seeds 1 to 28 all were right with the short settings. With the task's own, a rare seed leaves one in a
thousand wrong (training.seed=1901402653 data.seed=1901402653): to ask for all would fail by chance.
"""


def exact_match(out, *overrides, examples):
    seed = random.SystemRandom().randrange(2**31)
    print(f"training.seed={seed} data.seed={seed}")  # noqa: T201 (pytest shows it when the test fails)
    seeds = [f"training.seed={seed}", f"data.seed={seed}"]
    report = train("copying", overrides=[*overrides, *seeds], out=out, notify=str)
    assert report.examples == examples
    return report.metrics["exact_match"]["value"]


def test_short_sequences_are_copied(tmp_path):
    assert exact_match(tmp_path / "run", *SHORT, examples=200) >= COPIED


@pytest.mark.long
def test_the_copying_task_reaches_its_threshold(tmp_path):
    assert exact_match(tmp_path / "run", examples=1000) >= COPIED
