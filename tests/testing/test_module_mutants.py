"""Every check that all torch modules share catches a fault; shown on norms, the smallest of them."""

import pytest
import torch
from tests.testing.mutants import SHARED, after, instead
from tests.testing.outcomes import failure, outcomes
from torch import nn

from plugformer_plugins.norm.norms import RMSNorm


def raise_an_error(self, x):
    raise TypeError("no forward yet")


class Grown(RMSNorm):
    """A norm with one thing more, made by `grow`."""

    def __init__(self, model):
        super().__init__(model)
        self.grow(model)


def growing(name, grow, forward=lambda self, output, x: output, **members):
    """Returns a norm with something more, with which its outputs are changed."""
    return after(name, instead("Growing", Grown, grow=grow, **members), forward=forward)


def returning(name, change):
    return after(name, RMSNorm, forward=change)


class Table(nn.Module):
    """A matrix that may be a table of vectors, or a map."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.weight)


class Counting(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Rounds(RMSNorm):
    def forward(self, x):
        return super().forward(x.bfloat16().float() if x.dtype == torch.float32 else x)


MUTANTS = {
    "constructs": instead("Raises", RMSNorm, forward=raise_an_error),
    "serves_or_refuses_each_place": growing(
        "InfiniteInOneLayer",
        lambda self, model: setattr(self, "factor", float("inf") if model.place.cross else 1.0),
        lambda self, output, x: output * self.factor,
    ),
    "draws_initial_values": growing(
        "ForgetsToReset",
        lambda self, model: setattr(self, "bias", nn.Parameter(torch.zeros(model.width))),
        lambda self, output, x: output + self.bias,
    ),
    "every_parameter_gets_a_gradient": growing(
        "Idle", lambda self, model: setattr(self, "idle", nn.Linear(2, 2))
    ),
    "evaluation_is_repeatable": Counting,
    "runs_in_bfloat16": returning(
        "AlwaysFloat32", lambda self, y, x: y if x.dtype == torch.float64 else y.float()
    ),
    "runs_in_float32": Rounds,
    "saves_and_loads": growing(
        "UnsavedGain",
        lambda self, model: setattr(self, "gain", torch.rand(model.width, dtype=torch.float64)),
        lambda self, output, x: output * self.gain.to(x.dtype),
    ),
    "parameters_have_roles": growing(
        "UndeclaredTable", lambda self, model: setattr(self, "table", Table(3, model.width))
    ),
    "compiles": returning("Other", lambda self, y, x: y * (2 if torch.compiler.is_compiling() else 1)),
}


@pytest.mark.parametrize("name", [check.name for check in SHARED])
def test_every_shared_check_catches_a_fault(name):
    failure(MUTANTS[name], name, raises=name == "constructs")


@pytest.mark.parametrize(
    ("role", "outputs", "message"),
    [
        ("input", "width", "table.weight is taken to be input, but its last two axes grow"),
        ("hidden", 3, ""),
        ("tables", 3, "`roles` names"),
    ],
)
def test_roles_are_compared_with_what_grows(role, outputs, message):
    """What a module declares is believed, if there is such a parameter."""

    def grow(self, model):
        size = getattr(model, outputs) if isinstance(outputs, str) else outputs
        self.table = nn.Embedding(size, model.width) if role == "input" else Table(size, model.width)

    declared = {"hidden": {"table.weight": "hidden"}, "tables": {"tables.weight": "hidden"}}
    mutant = growing("Declared", grow, roles=declared.get(role, {}))
    if message:
        assert message in failure(mutant, "parameters_have_roles")
    else:
        assert outcomes(mutant)["parameters_have_roles"] == "passed"
