"""Optimizers of other packages keep the contract, and make the updates that their packages make."""

import pytest
import pytorch_optimizer
import schedulefree
import torch
from plugformer_torch_optimizers.optimizer import AdaptedOptimizer
from torch import nn

from plugformer import components, create
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Updates
from plugformer.optimizer import evaluated_values
from plugformer_testing import parametrize_with_checks

NAMES = [
    entry.name for entry in components("optimizer") if entry.distribution == "plugformer-torch-optimizers"
]


@parametrize_with_checks("optimizer/soap")
def test_contract(check):
    check()


@parametrize_with_checks("optimizer/normuon")
def test_contract_with_two_rules(check):
    check()


def trained(build, updates=5):
    """Trains a linear map by a torch optimizer of its weight; returns the map and the optimizer."""
    torch.manual_seed(0)
    linear = nn.Linear(3, 4, bias=False)
    x, y = torch.randn(2, 8, 3), torch.randn(2, 8, 4)
    optimizer = build(linear)
    for update in range(updates):
        optimizer.zero_grad()
        (linear(x[update % 2]) - y[update % 2]).square().mean().backward()
        optimizer.step()
    return linear, optimizer


@pytest.mark.parametrize("name", NAMES)
def test_every_name_trains_and_tells_its_source(name):
    optimizer = create("optimizer", name)
    weight = trained(lambda linear: optimizer.build(linear.named_parameters()), 20)[0].weight
    assert weight.isfinite().all()
    (entry,) = (entry for entry in components("optimizer") if entry.name == name)
    assert entry.source.startswith("https://")


def test_updates_are_those_of_the_package():
    ours = create("optimizer", "adan", lr=0.01, weight_decay=0.1, settings={"betas": [0.9, 0.9, 0.9]})
    found, _ = trained(lambda linear: ours.build(linear.named_parameters()))
    settings = {"lr": 0.01, "weight_decay": 0.1, "betas": (0.9, 0.9, 0.9)}
    expected, _ = trained(lambda linear: pytorch_optimizer.Adan(linear.parameters(), **settings))
    assert torch.equal(found.weight, expected.weight)


def test_the_average_of_a_schedule_free_optimizer_is_evaluated():
    ours = create("optimizer", "schedule_free_adamw", lr=0.1)
    found, optimizer = trained(lambda linear: ours.build(linear.named_parameters()))

    def build(linear):
        theirs = schedulefree.AdamWScheduleFree(linear.parameters(), lr=0.1)
        theirs.train()
        return theirs

    expected, theirs = trained(build)
    assert torch.equal(found.weight, expected.weight)
    before, evaluated = found.weight.clone(), evaluated_values(optimizer, found)
    theirs.eval()
    assert torch.equal(evaluated["weight"], expected.weight)
    assert torch.equal(found.weight, before)
    assert not torch.equal(before, evaluated["weight"])


def test_only_hidden_matrices_are_orthogonalized():
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "up": nn.Linear(4, 4)})
    groups = create("optimizer", "normuon").build(model.named_parameters()).param_groups
    assert [(group["use_muon"], len(group["params"])) for group in groups] == [
        (True, 1),
        (False, 1),
        (False, 1),
    ]


def test_what_is_known_of_the_size_of_updates():
    assert create("optimizer", "soap").updates("up.weight", torch.zeros(2, 2)) is Updates.ADAPTIVE
    with pytest.raises(ConfigurationError, match="does not say how large"):
        create("optimizer", "lamb").updates("up.weight", torch.zeros(2, 2))


@pytest.mark.parametrize("algorithm", ["pytorch_optimizer.Nothing", "pytorch_optimizer.load_optimizer"])
def test_what_is_no_optimizer(algorithm):
    with pytest.raises(ConfigurationError, match=algorithm.rpartition(".")[2]):
        AdaptedOptimizer(algorithm=algorithm)


def test_other_packages_are_not_imported():
    with pytest.raises(ConfigurationError, match="algorithm"):
        create("optimizer", "soap", algorithm="os.path")


def test_a_wrong_setting():
    with pytest.raises(ConfigurationError, match="Adan: beta1"):
        create("optimizer", "adan", settings={"betas": [2.0, 0.9, 0.9]}).build(
            [("w", nn.Parameter(torch.ones(2, 2)))]
        )
