"""The language-model head against torch's cross-entropy with padding ignored."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch
from tests.operators import Operators
from torch import nn

from plugformer.interfaces import HeadContext, HeadInput
from plugformer_plugins.head.language_model import LanguageModel

linear_cross_entropy = import_module("plugformer_blocks.linear_cross_entropy")
MODEL = HeadContext(width=6, heads=1, ffn_width=1, outputs=9)
REAL = torch.tensor([[True, True, True, False], [False, True, False, True]])


def example() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True), torch.randint(9, (2, 4))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_loss_equals_torchs(bias, smoothing, training):
    head = LanguageModel(MODEL, bias=bias, label_smoothing=smoothing).double().train(training)
    hidden, targets = example()
    loss, count = head.loss(hidden, targets, HeadInput(REAL))
    peer = nn.CrossEntropyLoss(
        ignore_index=-1, reduction="sum", label_smoothing=smoothing if training else 0.0
    )
    logits = hidden @ head.weight.T + (head.bias if bias else 0)
    expected = peer(logits.flatten(0, 1), targets.masked_fill(~REAL, -1).flatten())
    torch.testing.assert_close(loss, expected)
    assert count.item() == 5
    variables = [hidden, *head.parameters()]
    torch.testing.assert_close(torch.autograd.grad(loss, variables), torch.autograd.grad(expected, variables))


def test_a_gpu_has_the_share_of_its_memory_for_logits_that_the_option_gives(monkeypatch):
    room = len(REAL.flatten()) * MODEL.outputs * linear_cross_entropy.BYTES
    monkeypatch.setattr(linear_cross_entropy, "_free_memory", lambda device: room)
    hidden, targets = example()
    for share, pieces in ((1.0, 1), (0.3, 4)):
        head = LanguageModel(MODEL, logits_memory=share).double().to("meta")
        with Operators() as operators:
            head.loss(hidden.to("meta"), targets.to("meta"), HeadInput(REAL.to("meta")))
        assert operators.products == pieces


def test_an_own_weight_starts_like_a_linear_layers():
    """torch.nn.Linear's documentation: uniform between plus and minus one over the root of the width."""
    head = LanguageModel(replace(MODEL, width=16, outputs=1000))
    assert head.weight.abs().max().item() == pytest.approx(0.25, rel=0.01)
    assert head.weight.std().item() == pytest.approx(0.25 / 3**0.5, rel=0.02)
