"""adam and adamw against the papers' algorithms, step by step."""

import pytest
import torch
from torch import nn

from plugformer_plugins.optimizer.adam import Adam, AdamW


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


@pytest.mark.parametrize("optimizer", [Adam(), AdamW()], ids=["adam", "adamw"])
def test_frozen_parameters_are_left_out(optimizer):
    layer = nn.Linear(2, 3)
    layer.weight.requires_grad_(False)
    built = optimizer.build(layer.named_parameters())
    assert [p is layer.bias for group in built.param_groups for p in group["params"]] == [True]
