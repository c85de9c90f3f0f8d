"""An encoder alone: what it predicts from."""

import torch

from plugformer.configuration import resolve
from plugformer.experiment import Experiment
from plugformer.interfaces import ABSENT, Batch, Level, Tokens
from plugformer.model import Sizes, build

LENGTH = 5


def model(level):
    settings = {
        Level.SEQUENCE: ["type=multi-label", "model.head=multi_label"],
        Level.TOKEN: ["type=tagging", "model.head=token_classifier"],
    }[level]
    small = ["model.architecture=encoder-only", "model.width=8", "model.heads=2", "model.layers=1"]
    resolved = resolve("ag-news", [*small, *settings])
    return build(Experiment.of(resolved.task, resolved.registry).spec, Sizes(source=9, outputs=LENGTH))


def batch(targets):
    ids = torch.tensor([[2, 4, 5, 6, 3], [2, 4, 3, 0, 0]])
    return Batch(Tokens(ids, ids != 0), targets=targets)


def test_as_many_labels_as_positions_are_no_targets_of_tokens():
    examples = batch(torch.ones(2, LENGTH))
    several = model(Level.SEQUENCE)
    assert several.targets(examples)[1].equal(examples.source.mask)
    assert several.count(examples) == several(examples).targets == 2


def test_tokens_without_a_target_are_left_out():
    targets = torch.full((2, LENGTH), ABSENT)
    targets[0, 1], targets[1, 1] = 3, 4
    tagger = model(Level.TOKEN)
    assert tagger.targets(batch(targets))[1].equal(targets != ABSENT)
    assert tagger.count(batch(targets)) == tagger(batch(targets)).targets == 2
