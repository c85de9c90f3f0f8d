"""Targets arrive in a batch as a task type encodes them: stored, cut to a limit, drawn again, padded."""

from itertools import chain, cycle

import numpy as np
import pytest
import torch

from plugformer.interfaces import Level
from plugformer.registry import Kind
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_testing.small import LONGEST, SmallTask


class Measures(Tagging):
    """Has numbers for targets, one that is legal and one that often means "no target" among them."""

    numbers = (-100.0, 0.5, 1e-3, 0.0)

    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        rows = ((row, cycle(self.numbers)) for row in encoded["targets"])
        targets = [[old if old is None else next(turn) for old in row] for row, turn in rows]
        return {**encoded, "targets": targets}


class Offsets(Measures):
    numbers = (-100, 3, 0)


TYPES = ("classification", "regression", "multi-label", "tagging", Measures, Offsets)


@pytest.mark.parametrize("limit", [3, LONGEST])
@pytest.mark.parametrize("kind_of_task", TYPES)
def test_targets_arrive_as_encoded(kind_of_task, limit, registry):
    by_name = isinstance(kind_of_task, str)
    made = registry.create(Kind.TASK_TYPE, kind_of_task) if by_name else kind_of_task()
    task = SmallTask(made, registry=registry)
    targets = task.encode()["targets"]
    for architecture in task.architectures():
        split = task.split(inference=True, architecture=architecture, limit=limit)
        model = task.model(architecture)
        for epoch in (None, [1, 0]):
            batch = split.batch(range(len(split)), [LONGEST] * split.lengths.shape[1], epoch=epoch)
            found, marked = model.targets(batch)
            expected = targets
            if made.level is Level.TOKEN:
                rows = [[target for target in row[:limit] if target is not None] for row in targets]
                assert marked.sum(dim=1).tolist() == list(map(len, rows))
                found, expected = found[marked], list(chain.from_iterable(rows))
            torch.testing.assert_close(found.double(), torch.tensor(np.array(expected)).double())
