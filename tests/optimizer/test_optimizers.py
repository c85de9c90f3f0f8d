"""Optimizers against the papers' algorithms, step by step."""

import pytest
import torch
from tests.operators import Operators
from torch import nn

from plugformer.errors import ConfigurationError
from plugformer_plugins.optimizer import muon
from plugformer_plugins.optimizer.adam import Adam, AdamW
from plugformer_plugins.optimizer.lion import Lion
from plugformer_plugins.optimizer.muon import Muon, orthogonalized


def by_hand(value, gradients, *, lr, betas, epsilon, decay):
    """Kingma and Ba, algorithm 1, with the decay of Loshchilov and Hutter, algorithm 2."""
    first = second = torch.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        corrected = second / (1 - betas[1] ** step)
        move = first / (1 - betas[0] ** step) / (corrected.sqrt() + epsilon)
        value = value - lr * (move + decay * value)
    return value


OPTIMIZERS = [Adam(), AdamW(), Lion(), Muon()]
OPTIONS = {"lr": 0.1, "betas": (0.8, 0.95), "epsilon": 0.01}


@pytest.mark.parametrize(
    ("optimizer", "decay_of_matrices"),
    [
        (Adam(**OPTIONS), 0.0),
        (AdamW(**OPTIONS, weight_decay=0.3), 0.3),
        (AdamW(**OPTIONS, weight_decay=0.0), 0.0),
    ],
    ids=["adam", "adamw", "adamw without decay"],
)
def test_equals_the_algorithm(optimizer, decay_of_matrices):
    starts = {"matrix": torch.randn(3, 4), "vector": torch.randn(5), "scalar": torch.randn(())}
    gradients = {name: torch.randn(4, *start.shape) for name, start in starts.items()}
    parameters = {name: nn.Parameter(start.clone()) for name, start in starts.items()}
    built = optimizer.build(parameters.items())
    for step in range(4):
        for name, parameter in parameters.items():
            parameter.grad = gradients[name][step]
        built.step()
    for name, parameter in parameters.items():
        decay = decay_of_matrices if name == "matrix" else 0.0  # biases and norms are never pulled to zero
        expected = by_hand(starts[name], gradients[name], **OPTIONS, decay=decay)
        torch.testing.assert_close(parameter.data, expected)


def test_lion_equals_the_algorithm():
    """Chen et al., algorithm 2; a vector does not decay."""
    matrix, vector = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5))
    values, momenta = [matrix.detach().clone(), vector.detach().clone()], [torch.zeros(3, 4), torch.zeros(5)]
    built = Lion(lr=0.1, betas=(0.8, 0.95), weight_decay=0.3).build({"m": matrix, "v": vector}.items())
    for _ in range(4):
        gradients = [torch.randn(3, 4), torch.randn(5)]
        matrix.grad, vector.grad = (gradient.clone() for gradient in gradients)
        built.step()
        for index, (gradient, decay) in enumerate(zip(gradients, (0.3, 0.0), strict=True)):
            direction = torch.sign(0.8 * momenta[index] + 0.2 * gradient)
            values[index] = values[index] - 0.1 * (direction + decay * values[index])
            momenta[index] = 0.95 * momenta[index] + 0.05 * gradient
    torch.testing.assert_close([matrix.data, vector.data], values)


def test_muon_moves_hidden_matrices_alone():
    """Embeddings, heads and vectors are moved by AdamW, with the same learning rate."""
    torch.manual_seed(0)
    shapes = {"encoder.layers.0.up.weight": (4, 6), "encoder.embedding.weight": (4, 6), "head.bias": (6,)}
    parameters = {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}
    twins = {name: nn.Parameter(parameter.detach().clone()) for name, parameter in parameters.items()}
    built = Muon(lr=0.01, weight_decay=0.2).build(parameters.items())
    adam = AdamW(lr=0.01, betas=(0.9, 0.95), weight_decay=0.2).build(twins.items())
    for _ in range(3):
        for name, parameter in parameters.items():
            parameter.grad = torch.randn(shapes[name])
            twins[name].grad = parameter.grad.clone()
        built.step()
        adam.step()
    hidden, *others = shapes
    for name in others:
        torch.testing.assert_close(parameters[name].data, twins[name].data)
    assert not torch.allclose(parameters[hidden], twins[hidden])


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch has had Muon since version 2.9")
def test_muon_is_torchs_with_the_same_scale():
    """torch.optim.Muon computes in bfloat16."""
    start, gradient = torch.randn(6, 20), torch.randn(6, 20)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours.grad, theirs.grad = gradient.clone(), gradient.clone()
    Muon(lr=0.1).build([("hidden.weight", ours)]).step()
    torch.optim.Muon([theirs], lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw").step()
    torch.testing.assert_close(ours.data, theirs.data, atol=0.01, rtol=0.02)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
def test_muon_makes_matrices_of_one_shape_orthogonal_together(shape):
    """Each as by itself, by the formula of the post."""
    matrices = torch.randn(3, *shape, dtype=torch.float64)
    for matrix, found in zip(matrices, orthogonalized(matrices, 5), strict=True):
        x = (matrix if shape[0] < shape[1] else matrix.T) / matrix.norm()
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        torch.testing.assert_close(found, x if shape[0] < shape[1] else x.T)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda made: type(made).__name__)
def test_a_step_takes_as_many_operators_for_any_number_of_layers(optimizer):
    counts = []
    for layers in (2, 20):
        shapes = {"up.weight": (4, 6), "down.weight": (6, 4), "norm": (4,)}
        named = [
            (f"{layer}.{name}", nn.Parameter(torch.randn(shape)))
            for layer in range(layers)
            for name, shape in shapes.items()
        ]
        built = optimizer.build(named)
        for _ in range(2):
            for _, parameter in named:
                parameter.grad = torch.randn_like(parameter)
            with Operators() as operators:
                built.step()
        counts.append(operators.counts)
    assert counts[0] == counts[1]
    assert not {"_local_scalar_dense", "_to_copy"} & counts[0].keys(), "a GPU would be waited for"


def test_muon_refuses_shards(monkeypatch):
    monkeypatch.setattr(muon, "DTensor", nn.Parameter)
    with pytest.raises(ConfigurationError, match=r"training\.shard: muon needs whole matrices"):
        Muon().build(nn.Linear(2, 3).named_parameters())
