"""Gradient checkpointing changes memory and time, and no number."""

from functools import cached_property

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from plugformer.interfaces import Batch, Context

DEEP = ("model.layers=4", "model.dropout=0.2", "model.attention_dropout=0.1")
ON = "training.gradient_checkpointing=true"


@pytest.fixture
def batch(sentences):
    return Batch(sentences(), sentences(begin=True, shift=1), rows=[0, 1, 2])


def trained_once(model, batch):
    """Returns loss, auxiliary loss and gradients of a batch, and the bytes kept between the passes."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(7)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.train()(batch)
        size = sum(kept.values())
        (loss.total + loss.auxiliary).backward()
    gradients = {name: each.grad for name, each in model.named_parameters()}
    return loss, gradients, size


@pytest.mark.parametrize("position", ["rope", "t5", "alibi"])
@pytest.mark.parametrize("feed_forward", ["gelu", "{name: moe, balance: 1.0}"])
def test_the_same_numbers_with_less_memory(tiny_model, batch, position, feed_forward):
    settings = (*DEEP, f"model.position={position}", f"model.feed_forward={feed_forward}")
    plain, saving = tiny_model(*settings), tiny_model(*settings, ON)
    expected, gradients, much = trained_once(plain, batch)
    for _ in range(2):  # what a first pass leaves does not count in the second
        saving.zero_grad()
        loss, same, little = trained_once(saving, batch)
        assert torch.equal(loss.total, expected.total)
        assert torch.equal(loss.auxiliary, expected.auxiliary)
        assert same.keys() == gradients.keys()
        assert all(torch.equal(same[name], gradient) for name, gradient in gradients.items())
        assert little < much / 2


@pytest.mark.parametrize("settings", [(), (ON,)])
@pytest.mark.parametrize("position", ["t5", "alibi"])
def test_a_stack_computes_its_bias_and_mask_once(tiny_model, batch, monkeypatch, position, settings):
    model = tiny_model("model.layers=6", f"model.position={position}", *settings).train()
    calls = {"bias": [], "attn_mask": []}
    encoding = type(model.encoder.position)
    bias, attn_mask = encoding.bias, Context.attn_mask.func
    counted = cached_property(
        lambda context: calls["attn_mask"].append(context.view.causal) or attn_mask(context)
    )
    counted.__set_name__(Context, "attn_mask")
    monkeypatch.setattr(Context, "attn_mask", counted)
    monkeypatch.setattr(encoding, "bias", lambda *inputs: calls["bias"].append(inputs[0]) or bias(*inputs))
    model(batch).total.backward()
    assert calls["bias"] == [model.encoder.position, model.decoder.position]
    assert calls["attn_mask"] == [False, True, False]  # encoder, decoder, cross-attention


def test_answers_need_no_second_pass(tiny_model, batch, monkeypatch):
    monkeypatch.setattr("plugformer.model.layer.checkpoint", pytest.fail)
    model = tiny_model(*DEEP, ON).eval()
    with torch.no_grad():
        model.train()(batch)
    model.eval()(batch)


def test_hooks_of_a_layer_run_once(tiny_model, batch):
    model, called = tiny_model(*DEEP, ON).train(), []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_pre_hook(lambda layer, _: called.append(layer))
    model(batch).total.backward()
    assert called == [*model.encoder.layers, *model.decoder.layers]
