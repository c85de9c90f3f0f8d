"""What the stacks hand to the parts inside them."""

import pytest
import torch

from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Batch


@pytest.fixture
def batch(sentences) -> Batch:
    return Batch(sentences("right"), sentences("right", begin=True))


def contexts_of(part) -> list:
    """Returns a list that will have the context of every call."""
    seen = []
    part.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[1]))
    return seen


@pytest.mark.parametrize("cross", ["none", "rope"])
def test_every_attention_reads_the_encoding_that_is_meant_for_it(tiny_model, batch, cross):
    model = tiny_model("model.position=alibi", f"model.decoder.cross_attention.position={cross}")
    layer = model.decoder.layers[0]
    expected = [
        (contexts_of(model.encoder.layers[0].attention), model.encoder.position, False, False),
        (contexts_of(layer.attention), model.decoder.position, True, False),
        (contexts_of(layer.cross_attention), model.decoder.cross_position, False, True),
    ]
    model(batch)
    for (context,), encoding, causal, crossing in expected:
        assert context.query.encoding is encoding
        assert context.key.encoding is encoding
        assert context.view.causal is causal
        assert context.cross is crossing
    assert (type(model.decoder.cross_position).__name__ == "NoPositionalEncoding") is (cross == "none")


def test_hooks_see_what_encodings_and_heads_compute(tiny_model, batch):
    """Their methods are called by name, as `forward`; so they are watched like all other modules."""
    model, called = tiny_model("model.position=t5", "model.encoder.position=learned"), set()
    for path in ("encoder.position", "decoder.position", "decoder.cross_position", "head"):
        module = model.get_submodule(path)
        module.register_forward_pre_hook(lambda _, arguments, at=path: called.add((at, arguments[0])))
    model(batch)
    model.logits(batch)
    read, embedded = (
        ("rotate", "bias", "content_bias"),
        {(f"{name}.position", "embed") for name in model.stacks},
    )
    encodings = ("encoder.position", "decoder.position", "decoder.cross_position")
    slots = {(encoding, slot) for encoding in encodings for slot in read}
    assert called == slots | embedded | {("head", "loss"), ("head", "logits")}


@pytest.mark.parametrize("padding", ["none", "right"])
def test_networks_know_which_tokens_are_real(tiny_model, sentences, padding):
    model = tiny_model()
    source, target = sentences(padding), sentences(padding, begin=True)
    seen = [contexts_of(stack.layers[0].feed_forward) for stack in (model.encoder, model.decoder)]
    model(Batch(source, target))
    for (context,), real in zip(seen, (source.mask, target.mask[:, 1:]), strict=True):
        assert context.real is None if padding == "none" else torch.equal(context.real, real)


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


def test_training_replaces_ordinary_tokens_by_the_unknown_one(tiny_model):
    embedding = tiny_model("model.token_dropout=0.5").encoder.embedding.train()
    ids = torch.tensor([[PADDING, BEGIN, *[9] * 4000, END]])
    seen = embedding(ids) / embedding.scale
    vectors = embedding.weight
    unknown = (seen[0, 2:-1] == vectors[UNKNOWN]).all(-1)
    assert 0.45 < unknown.float().mean() < 0.55
    assert torch.equal(seen[0, 2:-1][~unknown], vectors[9].expand((~unknown).sum(), -1))
    assert torch.equal(seen[0, [0, 1, -1]], vectors[ids[0, [0, 1, -1]]])
    assert torch.equal(embedding.eval()(ids), vectors[ids] * embedding.scale)
