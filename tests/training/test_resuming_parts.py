"""Every built-in part is resumed exactly: in the middle of an epoch, with accumulation and dropout."""

import shutil

import pytest
from tests import batches
from tests.training.trainers import make_trainer

from plugformer.interfaces import Batch

STEPS, KILLED = 6, 3
SETTINGS = (
    "training.batches_per_update=2",
    f"training.evaluate_every={KILLED}",
    "model.dropout=0.2",
    "model.attention_dropout=0.1",
    "model.embeddings.shared=false",
)
LENGTHS = [(3, 2), (6,), (1, 4), (2, 5, 3), (4,)]
"""Of the examples of an epoch's five batches: the sixth that is read begins the second epoch."""

TEXTS = [[[4 + (3 * n + token) % 8 for token in range(n)] for n in lengths] for lengths in LENGTHS]


@pytest.fixture
def assert_exact(registry, tmp_path):
    """Trains to the end, and from the middle to the end: every bit must be equal."""

    def check(task, examples: list[Batch]):
        def trainer(folder):
            def order(epoch):
                return [[(index + epoch) % len(examples)] for index in range(len(examples))]

            return make_trainer(registry, folder, task, examples, steps=STEPS, order=order)

        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        trainer(whole).fit()
        middle, end = (f"checkpoints/step-{step:08d}" for step in (KILLED, STEPS))
        shutil.copytree(whole / middle, resumed / middle)
        second = trainer(resumed)
        second.fit()
        assert (second.progress.epoch, second.progress.batch) == (2, 2)
        for file in ("model.safetensors", "training.safetensors"):
            mine, yours = ((each / end / file).read_bytes() for each in (whole, resumed))
            assert mine == yours, file

    return check


def test_every_part(assert_exact, tiny_task, any_parts):
    examples = [batches.pairs(text, [row[::-1] for row in text]) for text in TEXTS]
    assert_exact(tiny_task(*SETTINGS, *any_parts), examples)
