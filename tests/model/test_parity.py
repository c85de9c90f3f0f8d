"""Assembled models against torch.nn.Transformer: outputs, losses and every gradient."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from plugformer.interfaces import Batch

WIDTH, HEADS, HIDDEN, LAYERS = 16, 2, 32, 2
VARIANTS = list(product(["pre", "post"], ["relu", "gelu"], [True, False]))

variants = pytest.mark.parametrize(("residual", "activation", "final_norm"), VARIANTS)
modes = pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])


@pytest.fixture
def model(tiny_model, residual, activation, final_norm, training):
    overrides = [
        f"model.residual={residual}",
        f"model.feed_forward={activation}",
        f"model.final_norm={str(final_norm).lower()}",
        f"model.layers={LAYERS}",
        "model.position=none",
        "model.embeddings={shared: false, tied: false}",
    ]
    return randomized(tiny_model(*overrides)).double().train(training)


@pytest.fixture
def reference(residual, activation, final_norm, training):
    arguments = {
        "nhead": HEADS,
        "dim_feedforward": HIDDEN,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": True,
        "norm_first": residual == "pre",
        "dtype": torch.float64,
    }
    norms = [nn.LayerNorm(WIDTH, dtype=torch.float64) if final_norm else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, **arguments), LAYERS, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, **arguments), LAYERS, norms[1])
    whole = nn.Transformer(WIDTH, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    return whole.train(training)


def randomized(model: nn.Module) -> nn.Module:
    """Moves initial values, of which biases and norms have trivial ones."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model


def pairs(ours: nn.Module, theirs: nn.Module) -> list[tuple[list[Tensor], Tensor]]:
    """Returns our parameters beside torch's; torch keeps query, key and value in one."""
    found = []
    for own, other in zip(ours.layers, theirs.layers, strict=True):
        attentions = [("attention", "self_attn", "norm1")]
        if "cross_attention" in own.names:
            attentions.append(("cross_attention", "multihead_attn", "norm2"))
        for name, torch_name, norm in attentions:
            attention, torch_attention = getattr(own, name), getattr(other, torch_name)
            parts = [attention.query, attention.key, attention.value]
            found.append(([part.weight for part in parts], torch_attention.in_proj_weight))
            found.append(([part.bias for part in parts], torch_attention.in_proj_bias))
            found += modules(attention.output, torch_attention.out_proj)
            found += modules(own.residual.norms[name], getattr(other, norm))
        found += modules(own.feed_forward.up, other.linear1)
        found += modules(own.feed_forward.down, other.linear2)
        last = getattr(other, f"norm{len(attentions) + 1}")
        found += modules(own.residual.norms["feed_forward"], last)
    return found + (modules(ours.final_norm, theirs.norm) if theirs.norm else [])


def modules(ours: nn.Module, theirs: nn.Module) -> list[tuple[list[Tensor], Tensor]]:
    return [([ours.weight], theirs.weight), ([ours.bias], theirs.bias)]


def copy(found: list[tuple[list[Tensor], Tensor]]) -> None:
    with torch.no_grad():
        for ours, theirs in found:
            theirs.copy_(torch.cat(ours))


def assert_same_gradients(found: list[tuple[list[Tensor], Tensor]], stack: nn.Module) -> None:
    ours = [parameter for own, _ in found for parameter in own]
    assert {id(each) for each in ours} == {id(each) for each in stack.layers.parameters()} | {
        id(each) for each in stack.final_norm.parameters()
    }, "a parameter is not compared"
    for own, other in found:
        torch.testing.assert_close(torch.cat([each.grad for each in own]), other.grad)


def embedded(embedding: nn.Module, ids: Tensor) -> Tensor:
    return embedding.weight.detach()[ids].requires_grad_()


def gradient_by_token(ids: Tensor, gradient: Tensor, vocabulary: int) -> Tensor:
    return torch.zeros(vocabulary, WIDTH, dtype=gradient.dtype).index_add(
        0, ids.flatten(), gradient.flatten(0, 1)
    )


@variants
@modes
@pytest.mark.parametrize("padding", ["none", "right"])
def test_whole_model(model, reference, sentences, padding):
    found = {name: pairs(getattr(model, name), getattr(reference, name)) for name in ("encoder", "decoder")}
    copy(found["encoder"] + found["decoder"])
    source, target = sentences(padding), sentences(padding, begin=True, shift=3)
    before, after = target.ids[:, :-1], target.ids[:, 1:]
    real = target.mask[:, 1:]
    read, written = embedded(model.encoder.embedding, source.ids), embedded(model.decoder.embedding, before)
    hidden = reference(
        read,
        written,
        tgt_mask=future(before.shape[1]),
        src_key_padding_mask=~source.mask,
        tgt_key_padding_mask=~target.mask[:, :-1],
        memory_key_padding_mask=~source.mask,
    )
    logits = hidden @ model.head.weight.detach().T
    batch = Batch(source, target)
    loss = nn.functional.cross_entropy(logits[real], after[real], reduction="sum")
    total, targets, auxiliary = model(batch)
    torch.testing.assert_close(model.logits(batch)[real], logits[real])
    torch.testing.assert_close(total, loss)
    assert targets == real.sum() == model.count(batch)
    assert auxiliary == 0
    likelihoods = model.likelihoods(batch)
    right = (logits.log_softmax(-1).gather(-1, after[..., None])[..., 0] * real).sum(1)
    torch.testing.assert_close(likelihoods.log_probabilities, right, check_dtype=False)
    assert likelihoods.targets.tolist() == real.sum(1).tolist()
    assert likelihoods.correct.tolist() == ((logits.argmax(-1) == after) & real).sum(1).tolist()

    total.backward()
    loss.backward()
    for name, parameters in found.items():
        assert_same_gradients(parameters, getattr(model, name))
    for stack, ids, x in ((model.encoder, source.ids, read), (model.decoder, before, written)):
        weight = stack.embedding.weight
        torch.testing.assert_close(weight.grad, gradient_by_token(ids, x.grad, len(weight)))


def future(length: int) -> Tensor:
    """Returns torch's causal mask, in which True means "may not attend"."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)
