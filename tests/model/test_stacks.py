"""What the stacks hand to the parts inside them."""

from dataclasses import replace

import pytest
import torch

from plugformer.interfaces import Batch


@pytest.fixture
def batch(sentences) -> Batch:
    return Batch(sentences("right"), sentences("right", begin=True))


def spy(monkeypatch, attention, method: str) -> list:
    """Notes the last argument of every call: the positions or the context."""
    seen, original = [], getattr(attention, method)
    monkeypatch.setattr(
        attention, method, lambda *arguments: seen.append(arguments[-1]) or original(*arguments)
    )
    return seen


@pytest.mark.parametrize("cross", ["none", "rope"])
def test_every_attention_reads_the_encoding_that_is_meant_for_it(tiny_model, batch, monkeypatch, cross):
    model = tiny_model("model.position=alibi", f"model.decoder.cross_attention.position={cross}")
    layer = model.decoder.layers[0]
    own, crossing = (
        spy(monkeypatch, layer.attention, "attend"),
        spy(monkeypatch, layer.cross_attention, "attend"),
    )
    keys = spy(monkeypatch, layer.cross_attention, "project")
    encoder = spy(monkeypatch, model.encoder.layers[0].attention, "attend")
    model(batch)
    for context, encoding, causal in [
        (encoder[0], model.encoder.position, False),
        (own[0], model.decoder.position, True),
        (crossing[0], model.decoder.cross_position, False),
    ]:
        assert context.query.encoding is encoding
        assert context.key.encoding is encoding
        assert context.view.causal is causal
    assert keys[0].encoding is model.decoder.cross_position
    assert (type(model.decoder.cross_position).__name__ == "NoPositionalEncoding") is (cross == "none")


@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_networks_see_real_tokens_alone(tiny_model, sentences, padding):
    model = tiny_model()
    seen = []
    for stack in (model.encoder, model.decoder):
        network = stack.layers[0].feed_forward
        network.register_forward_hook(lambda module, inputs, output: seen.append(tuple(inputs[0].shape)))
    source, target = sentences(padding), sentences(padding, begin=True)
    model(Batch(source, target))
    assert seen == [(source.count, 16), (target.count - 3, 16)]  # the three END predict nothing


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("residual", ["pre", "post"])
def test_what_stands_at_padding_does_not_matter(tiny_model, sentences, any_attention, padding, residual):
    model = tiny_model(f"model.attention={any_attention}", f"model.residual={residual}").double()
    source, target = sentences(padding), sentences(padding, begin=True)
    losses = [model(Batch(source, target)).total]
    for tokens in (source, target):
        changed = replace(tokens, ids=torch.where(tokens.mask, tokens.ids, 7))
        losses.append(model(Batch(changed, target) if tokens is source else Batch(source, changed)).total)
    torch.testing.assert_close(losses[1:], losses[:1] * 2)


def test_the_future_does_not_matter(tiny_model, batch, any_attention):
    model = tiny_model(f"model.attention={any_attention}").double()
    before = model.hidden(batch)
    ids = batch.target.ids.clone()
    ids[:, 3:] = 9
    after = model.hidden(replace(batch, target=replace(batch.target, ids=ids)))
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_auxiliary_losses_are_collected_once_and_cleared(tiny_model, batch):
    model = tiny_model("model.feed_forward={name: moe, balance: 0.5}").train()
    loss = model(batch)
    assert loss.auxiliary > 0
    assert not any("auxiliary_loss" in vars(module) for module in model.modules())
    assert model.eval()(batch).auxiliary == 0


def test_shared_and_tied_embeddings_are_one_parameter(tiny_model):
    model = tiny_model("model.embeddings={shared: true, tied: true}")
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.head.weight
    apart = tiny_model("model.embeddings={shared: false, tied: true}")
    assert apart.encoder.embedding.weight is not apart.decoder.embedding.weight
    assert apart.decoder.embedding.weight is apart.head.weight


def test_scaled_embeddings(tiny_model, sentences):
    model, source = tiny_model("model.embeddings.scaled=true"), sentences()
    embedding = model.encoder.embedding
    torch.testing.assert_close(embedding(source.ids), embedding.weight[source.ids] * 16**0.5)
