"""What a trained model weighed of a text: tokens, output, and the attentions that keep no weights."""

from dataclasses import replace

import torch

from plugformer.interfaces import Attention
from plugformer_inspection import inspect_attention


def test_tokens_on_both_sides_are_those_that_the_model_read(model):
    found = inspect_attention(model, "7/4/76")
    encoder, decoder, cross = found.attentions
    source, target = [*"7/4/76", "<end>"], ["<begin>", *found.output]
    assert (encoder.query, encoder.key) == (source, source)
    assert (decoder.query, decoder.key) == (target, target)
    assert (cross.query, cross.key) == (target, source)
    assert [view.component for view in found.attentions] == ["MultiHeadAttention"] * 3
    for view in found.attentions:
        assert view.weights is not None
        assert view.weights.shape == (2, len(view.query), len(view.key))
        torch.testing.assert_close(view.weights.sum(-1), torch.ones(2, len(view.query)))


def test_the_output_is_the_answer(model):
    assert inspect_attention(model, "7/4/76").output == model.predict(["7/4/76"])[0].output


def test_the_decoder_sees_no_future(model):
    decoder = inspect_attention(model, "March 5, 1996").attentions[1]
    assert decoder.weights is not None
    assert torch.equal(decoder.weights, decoder.weights.tril())
    assert len(decoder.query) > 1


def test_unknown_characters_have_a_name(model):
    assert inspect_attention(model, "龘").attentions[0].key == ["<unknown>", "<end>"]


class Silent(Attention):
    """Reads as another attention does, and records nothing."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x, context):
        return self.attention(x, replace(context, observer=None))


def test_an_attention_that_records_nothing_is_listed(model, monkeypatch):
    layer = model.model.decoder.layers[0]
    monkeypatch.setitem(layer._modules, "cross_attention", Silent(layer.cross_attention))
    views = inspect_attention(model, "7/4/76").attentions
    assert [view.weights is None for view in views] == [False, False, True]
    assert views[2].component == "Silent"
