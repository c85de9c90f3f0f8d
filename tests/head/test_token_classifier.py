"""The token classifier: losses, likelihoods and best labels by hand; only tokens with a target count."""

from math import log

import pytest
import torch

from plugformer.interfaces import ABSENT, HeadContext, HeadInput
from plugformer_plugins.head.token_classifier import TokenClassifier

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=2)
HIDDEN = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]], [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]])
REAL = torch.tensor([[True, True, False], [True, False, True]])
CONTEXT = HeadInput(REAL)
TARGETS = torch.tensor([[0, 0, ABSENT], [1, ABSENT, 1]])


@pytest.fixture
def head():
    """Gives the labels (0.9, 0.1) at states of (1, 0), and (0.4, 0.6) at those of (0, 1)."""

    def make(**options):
        made = TokenClassifier(MODEL, **options)
        with torch.no_grad():
            made.output.weight.copy_(torch.tensor([[0.9, 0.4], [0.1, 0.6]]).log())
            made.output.bias.zero_()
        return made

    return make


def test_the_loss_is_that_of_tokens_with_a_target(head):
    loss, count = head().loss(HIDDEN, TARGETS, CONTEXT)
    assert loss.item() == pytest.approx(-log(0.9) - log(0.4) - log(0.6) - log(0.1), rel=1e-6)
    assert count.item() == 4


def test_targets_are_smoothed_in_training_alone(head):
    smoothed, by_hand = head(label_smoothing=0.2), 0.0
    for right, wrong in ((0.9, 0.1), (0.4, 0.6), (0.6, 0.4), (0.1, 0.9)):
        by_hand -= 0.9 * log(right) + 0.1 * log(wrong)
    assert smoothed.train().loss(HIDDEN, TARGETS, CONTEXT)[0].item() == pytest.approx(by_hand, rel=1e-6)
    plain = head().loss(HIDDEN, TARGETS, CONTEXT)[0].item()
    assert smoothed.eval().loss(HIDDEN, TARGETS, CONTEXT)[0].item() == pytest.approx(plain, rel=1e-6)
