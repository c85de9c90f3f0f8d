"""Heads that compare two texts: what they pool, by hand, whatever the padding."""

from dataclasses import replace

import pytest
import torch

from plugformer import create_model
from plugformer.errors import ConfigurationError
from plugformer.interfaces import HeadContext, HeadInput, Tokens
from plugformer_plugins.head.compared import PairClassifier, PairRegressor

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=8)
HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 2.0], [5.0, -1.0], [99.0, 99.0]]])
REAL = torch.tensor([[True, True, True, False]])
TEXTS = torch.tensor([[0, 0, 1, 2]])
"""Means (2, 2) and (5, -1)."""
BOTH = [2.0, 2.0, 5.0, -1.0, 3.0, 3.0, 10.0, -2.0]


def of(texts):
    ids = torch.where(REAL, 7, 0)
    marks = {} if texts is None else {"segment": texts}
    return HeadInput(REAL, Tokens(ids, REAL, marks=marks))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (TEXTS, BOTH),
        (TEXTS.clamp(max=1), BOTH),
        (None, [3.0, 1.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0]),
        (torch.tensor([[0, 1, 2, 3]]), [1.0, 2.0, 4.0, 0.5, 3.0, 1.5, 4.0, 1.0]),
    ],
    ids=["two texts", "padding in the second", "one text", "three texts"],
)
def test_both_vectors_are_compared(texts, expected):
    head = PairClassifier(MODEL)
    with torch.no_grad():
        head.output.weight.copy_(torch.eye(8))
        head.output.bias.zero_()
    assert head.logits(HIDDEN, of(texts)).flatten().tolist() == pytest.approx(expected)


def test_a_hidden_layer_reads_all_four_vectors():
    head = PairClassifier(replace(MODEL, outputs=3), hidden=5, activation="relu", dropout=0.1)
    assert head.hidden[0].weight.shape == (5, 8)
    assert head.logits(HIDDEN, of(TEXTS)).shape == (1, 3)


def test_a_number_is_linear_in_what_is_compared():
    head = PairRegressor(replace(MODEL, outputs=1))
    with torch.no_grad():
        head.output.weight.fill_(1.0)
        head.output.bias.zero_()
    assert head.losses(head.logits(HIDDEN, of(TEXTS)), torch.tensor([20.0])).tolist() == [
        (sum(BOTH) - 20) ** 2
    ]


def test_an_architecture_without_an_encoder_is_refused():
    sizes = {"width": 8, "heads": 2, "layers": 1, "ffn_width": 8, "max_length": 8, "outputs": 2}
    refused = "reads source, which DecoderOnly does not have; choose an encoder"
    with pytest.raises(ConfigurationError, match=refused):
        create_model("decoder-only", vocabulary=20, head="pair_classifier", level="sequence", **sizes)
