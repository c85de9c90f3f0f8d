"""The classifier: pooling by hand, padding on either side, and torch's cross-entropy."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from plugformer.interfaces import HeadContext, HeadInput
from plugformer_blocks import pool
from plugformer_plugins.head.pooling import Classifier

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=3)
NOISE = [7.0, -7.0]
A, B, C = [1.0, 5.0], [2.0, -4.0], [3.0, 2.0]
POOLED = {
    "first": [1.0, 5.0],
    "last": [3.0, 2.0],
    "max": [3.0, 5.0],
    "mean": [2.0, 1.0],
    "sum": [6.0, 3.0],
}
ROWS = {
    "right": ([A, B, C, NOISE, NOISE], [1, 1, 1, 0, 0]),
    "left": ([NOISE, NOISE, A, B, C], [0, 0, 1, 1, 1]),
    "both": ([NOISE, A, B, C, NOISE], [0, 1, 1, 1, 0]),
    "holes": ([A, NOISE, B, NOISE, C], [1, 0, 1, 0, 1]),
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("pooling", POOLED)
def test_pooling_by_hand(pooling, rows):
    values, marks = ROWS[rows]
    other = [[0.5, 0.5]] * 5  # a neighbor without padding
    hidden = torch.tensor([values, other])
    real = torch.tensor([marks, [1] * 5]).bool()
    expected = [POOLED[pooling], [2.5, 2.5] if pooling == "sum" else [0.5, 0.5]]
    torch.testing.assert_close(pool(hidden, real, pooling), torch.tensor(expected))


@pytest.mark.parametrize("pooling", ["max", "mean", "sum"])
def test_nothing_real_is_zero(pooling):
    hidden = torch.randn(1, 3, 2)
    assert pool(hidden, torch.zeros(1, 3, dtype=torch.bool), pooling).eq(0).all()


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("options", "function"),
    [
        ({}, lambda x: x),
        ({"hidden": 5}, torch.tanh),
        ({"hidden": 5, "activation": "relu"}, torch.relu),
    ],
)
def test_logits_and_loss(options, function, smoothing, training):
    head = Classifier(MODEL, label_smoothing=smoothing, **options).train(training)
    hidden, targets = torch.randn(4, 3, 2), torch.tensor([0, 2, 1, 1])
    real = torch.ones(4, 3, dtype=torch.bool)
    pooled = hidden.mean(1)
    inner = function(head.hidden[0](pooled)) if "hidden" in options else pooled
    expected = inner @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(head.logits(hidden, HeadInput(real)), expected)
    loss, count = head.loss(hidden, targets, HeadInput(real))
    torch.testing.assert_close(
        loss,
        cross_entropy(expected, targets, reduction="sum", label_smoothing=smoothing if training else 0.0),
    )
    assert count.item() == 4
