"""Heads for several labels and for numbers: losses and likelihoods by hand, over pooled hidden states."""

from dataclasses import replace
from math import log

import pytest
import torch

from plugformer.interfaces import HeadContext, HeadInput
from plugformer_plugins.head.pooling import MultiLabelClassifier, Regressor

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=2)
HIDDEN = torch.tensor([[[1.0, 3.0], [3.0, 1.0]], [[4.0, 0.0], [99.0, 99.0]]])
REAL = torch.tensor([[True, True], [True, False]])
"""Means (2, 2) and (4, 0)."""


def with_weights(head, weight, bias):
    with torch.no_grad():
        head.output.weight.copy_(torch.tensor(weight))
        head.output.bias.copy_(torch.tensor(bias))
    return head


def logit(probability):
    return log(probability / (1 - probability))


@pytest.fixture
def multi_label():
    """Gives the labels probabilities of 0.8 and 0.5, then 0.2 and 0.5."""
    slope, bias = (logit(0.2) - logit(0.8)) / 2, logit(0.8) - (logit(0.2) - logit(0.8))

    def make(**options):
        head = MultiLabelClassifier(MODEL, **options)
        return with_weights(head, [[slope, 0.0], [0.0, 0.0]], [bias, 0.0])

    return make


TARGETS = torch.tensor([[1.0, 0.0], [1.0, 1.0]])


def test_the_loss_of_labels_is_binary_cross_entropy(multi_label):
    loss, count = multi_label().loss(HIDDEN, TARGETS, HeadInput(REAL))
    assert loss.item() == pytest.approx(-log(0.8) - log(0.5) - log(0.2) - log(0.5), rel=1e-6)
    assert count.item() == 2


def test_labels_are_smoothed_towards_one_half_in_training_alone(multi_label):
    head = multi_label(label_smoothing=0.2)
    by_hand = -(0.9 * log(0.8) + 0.1 * log(0.2)) - (0.9 * log(0.2) + 0.1 * log(0.8)) - 2 * log(0.5)
    assert head.train().loss(HIDDEN, TARGETS, HeadInput(REAL))[0].item() == pytest.approx(by_hand, rel=1e-6)
    plain = -log(0.8) - log(0.2) - 2 * log(0.5)
    assert head.eval().loss(HIDDEN, TARGETS, HeadInput(REAL))[0].item() == pytest.approx(plain, rel=1e-6)


def test_labels_are_likely_and_right_together(multi_label):
    found = multi_label().likelihoods(HIDDEN, torch.tensor([[1.0, 1.0], [1.0, 0.0]]), HeadInput(REAL))
    assert found.log_probabilities.tolist() == pytest.approx([log(0.8 * 0.5), log(0.2 * 0.5)], rel=1e-6)
    assert found.targets.tolist() == [1, 1]
    assert found.correct.tolist() == [1, 0]  # probabilities from one half on mean that a label applies


@pytest.fixture
def regressor():
    """Gives 2 a + 3 b - 1: 9, then 7."""
    return with_weights(Regressor(replace(MODEL, outputs=1)), [[2.0, 3.0]], [-1.0])


def test_the_loss_of_numbers_is_the_squared_error(regressor):
    assert regressor.logits(HIDDEN, HeadInput(REAL)).tolist() == [[9.0], [7.0]]
    loss, count = regressor.loss(HIDDEN, torch.tensor([10.0, 4.5]), HeadInput(REAL))
    assert loss.item() == pytest.approx(1 + 2.5**2)
    assert count.item() == 2
