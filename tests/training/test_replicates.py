"""Replicates: other luck with the same seed, on the same examples in the same order."""

import random

import numpy as np
import torch

from plugformer.configuration.task import TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.hooks import hookimpl
from plugformer.reproducibility import seed_generators


class Beginning:
    """Keeps the states of all generators with which a training begins."""

    @hookimpl
    def run_started(self):
        self.states = (torch.initial_seed(), random.getstate(), np.random.get_state()[1].tolist())


def test_a_replicate_changes_dropout_and_not_the_order_of_examples(train_tiny, tmp_path, monkeypatch):
    rows, batch = [], EncodedSplit.batch
    monkeypatch.setattr(
        EncodedSplit,
        "batch",
        lambda split, chosen, *lengths, **options: (
            rows.append(chosen) or batch(split, chosen, *lengths, **options)
        ),
    )

    def trained(*settings):
        rows.clear()
        seen = Beginning()
        report = train_tiny(tmp_path / "-".join(settings), *settings, observers=[seen])
        return seen.states, list(rows), report.examples

    zero, one, seeded = (
        trained("training.replicate=0"),
        trained("training.replicate=1"),
        trained("training.seed=2"),
    )
    assert zero[1:] == one[1:]
    assert zero[1] != seeded[1]
    assert all(mine != theirs for mine, theirs in zip(zero[0], one[0], strict=True))


def test_no_replicate_shares_its_seed_with_a_process_or_another_seed():
    drawn = [
        TrainingSettings(seed=seed, replicate=replicate).replicate_seed
        for seed in range(5)
        for replicate in range(5)
    ]
    for seed in range(5):
        for process in range(1, 5):
            seed_generators(seed, process)
            drawn.append(torch.initial_seed())
    assert len(set(drawn)) == len(drawn)
