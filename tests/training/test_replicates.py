"""Replicates: other luck with the same seed, on the same examples in the same order."""

import torch

from plugformer.configuration.task import TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.hooks import hookimpl
from plugformer.reproducibility import seed_generators


class Beginning:
    @hookimpl
    def run_started(self):
        self.seed = torch.initial_seed()


def test_a_replicate_changes_dropout_and_not_the_order_of_examples(train_tiny, tmp_path, monkeypatch):
    rows, batch = [], EncodedSplit.batch

    def noted(split, chosen, *lengths, **options):
        rows.append(chosen)
        return batch(split, chosen, *lengths, **options)

    monkeypatch.setattr(EncodedSplit, "batch", noted)

    def trained(setting):
        rows.clear()
        seen = Beginning()
        train_tiny(tmp_path / setting, setting, "training.steps=3", callbacks=[seen])
        return seen.seed, list(rows)

    (zero, order), (one, same), (_, other) = map(
        trained, ("training.replicate=0", "training.replicate=1", "training.seed=2")
    )
    assert zero != one
    assert order == same != other


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
