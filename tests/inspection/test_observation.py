"""Observing a model: every attention is seen, at its place, and nothing stays behind."""

from contextlib import ExitStack

import pytest
import torch

from plugformer.interfaces import Batch, Tokens, evaluating
from plugformer_inspection.attention import AttentionLocation, attentions, observing

PLACES = [
    AttentionLocation("encoder", 0, "self"),
    AttentionLocation("encoder", 1, "self"),
    AttentionLocation("decoder", 0, "self"),
    AttentionLocation("decoder", 0, "cross"),
    AttentionLocation("decoder", 1, "self"),
    AttentionLocation("decoder", 1, "cross"),
]


@pytest.fixture
def batch(sentences):
    return Batch(sentences("right"), target=sentences("right", begin=True, shift=1))


def test_every_attention_is_observed_at_its_place(tiny_model, batch, any_attention):
    model = tiny_model("model.layers=2", f"model.attention={any_attention}")
    with evaluating(model), observing(model) as records:
        model.hidden(batch)
    assert [record.place for record in records] == PLACES == list(attentions(model))
    source, target = batch.source.mask, batch.target.mask[:, 1:]
    for record in records:
        queries = source if record.place.stack == "encoder" else target
        keys = target if record.place == ("decoder", record.place.layer, "self") else source
        assert record.name == "weights"
        assert record.value.shape == (3, 2, queries.shape[1], keys.shape[1])
        torch.testing.assert_close(record.value.sum(-1)[:, :, 0], torch.ones(3, 2))


def test_weights_are_those_of_the_formula(tiny_model, batch):
    """Attention Is All You Need, equation 1, on the first layer of the encoder."""
    model = tiny_model()
    with evaluating(model), observing(model) as records:
        model.hidden(batch)
    encoder, layer = model.encoder, model.encoder.layers[0]
    with torch.no_grad():
        x = encoder.embedding(batch.source.ids) + encoder.position.table.weight[: batch.source.ids.shape[1]]
        h = layer.residual.norms["attention"](x)
        query, key = (
            projection(h).unflatten(-1, (2, 8)).transpose(1, 2)
            for projection in (layer.attention.query, layer.attention.key)
        )
        scores = query @ key.mT / 8**0.5
        expected = scores.masked_fill(~batch.source.mask[:, None, None], -torch.inf).softmax(-1)
    torch.testing.assert_close(records[0].value, expected)


def test_looking_changes_no_answer_and_leaves_no_trace(tiny_model, batch):
    model, real = tiny_model("model.layers=2"), batch.target.mask[:, 1:]
    with evaluating(model):
        before = model.hidden(batch)
        with observing(model) as records:
            torch.testing.assert_close(model.hidden(batch)[real], before[real])
        seen = len(records)
        assert torch.equal(model.hidden(batch), before)
    assert len(records) == seen == 6
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("inside", [True, False])
def test_layers_that_are_computed_again_are_observed_once(tiny_model, batch, inside):
    """The loss depends on the weights, and the backward pass comes inside of the context or after it."""
    gradients = []
    for settings in ((), ("training.gradient_checkpointing=true",)):
        model = tiny_model("model.layers=2", "model.dropout=0.2", *settings).train()
        torch.manual_seed(3)
        with ExitStack() as stack:
            records = stack.enter_context(observing(model))
            with observing(model) as inner:
                loss = model.hidden(batch).square().sum()
            loss = loss + sum(record.value[..., 0].sum() for record in records)
            if not inside:
                stack.close()
            loss.backward()
        assert [record.place for record in records] == [record.place for record in inner] == PLACES
        gradients.append({name: each.grad for name, each in model.named_parameters()})
    plain, again = gradients
    assert all(torch.equal(again[name], each) for name, each in plain.items() if each is not None)


def test_incremental_decoding_records_the_rows_of_the_whole(tiny_model, batch):
    """Step by step the weights are those of one pass, a row at a time."""
    model = tiny_model()
    ids = batch.target.ids[:1, :4]
    whole = Batch(Tokens(batch.source.ids[:1], batch.source.mask[:1], full=True))
    with evaluating(model):
        memory = model.encoder(whole.source)
        with observing(model) as together:
            model.decoder(_tokens(ids), cache=model.decoder.start(memory))
        cache = model.decoder.start(memory)
        with observing(model) as steps:
            for step in range(4):
                model.decoder(_tokens(ids[:, step : step + 1]), cache=cache)
    for kind in range(2):
        for row, record in enumerate(steps[kind::2]):
            expected = together[kind].value[:, :, row, : record.value.shape[-1]]
            torch.testing.assert_close(record.value[:, :, 0], expected)


def _tokens(ids):
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), full=True)
