"""Digests tell apart what has other bits, and nothing else."""

import random
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import nn

from plugformer_verification.recording import attributes, digest


@dataclass
class Pair:
    one: object
    other: object


DIFFERENT = [
    torch.tensor([0.0]),
    torch.tensor([-0.0]),
    torch.tensor([[0.0]]),
    torch.tensor([0.0], dtype=torch.float64),
    torch.tensor([0]),
    torch.tensor(True),
    torch.tensor([1.0, float("nan")], dtype=torch.bfloat16),
    np.zeros(1),
    1,
    1.0,
    "1",
    None,
    [1, 2],
    [[1], 2],
    {"a": 1},
    {"a": torch.ones(1)},
    Pair(1, torch.ones(1)),
    Pair(1, torch.zeros(1)),
    *map(random.Random, (1, 2)),
    np.random.default_rng(1),
    np.random.default_rng(2),
    torch.Generator().manual_seed(1),
    torch.Generator().manual_seed(2),
]


def test_other_bits_other_digest():
    for one, other in combinations(DIFFERENT, 2):
        assert digest(one) != digest(other), (one, other)


def test_same_bits_same_digest():
    transposed = torch.arange(6).view(2, 3).T
    assert digest(transposed) == digest(transposed.clone())
    assert digest({1, 2, 3}) == digest({3, 2, 1})
    assert digest((0.9, 0.999)) == digest([0.9, 0.999])  # JSON knows no tuples
    assert digest(torch.Generator().manual_seed(1)) == digest(torch.Generator().manual_seed(1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("saved", torch.zeros(1))
        self.register_buffer("forgotten", torch.zeros(1), persistent=False)
        self._calls, self.rate, self.past = 3, 0.5, [torch.ones(1)]
        self.generator, self.function = torch.Generator(), print


def test_attributes_are_what_checkpoints_do_not_hold():
    found = attributes(Net(), "net")
    assert found.keys() == {"net.forgotten", "net._calls", "net.rate", "net.past", "net.generator"}
    assert (found["net._calls"], found["net.rate"]) == ("3", "0.5")


def test_attributes_of_an_optimizer():
    optimizer = torch.optim.SGD(Net().parameters(), lr=0.1)
    optimizer.updates = 7
    assert attributes(optimizer, "optimizer")["optimizer.updates"] == "7"
