"""A decoder that reads nothing but itself: its layers have no cross-attention."""

import pytest
import torch

from plugformer.interfaces import PositionalEncoding, Tokens
from plugformer.model.decoder import Decoder
from plugformer.model.layer import Layer
from plugformer_plugins.residual.norms import PreNorm
from plugformer_testing.probes import RootMeanSquare


@pytest.fixture
def decoder(tiny_model):
    """The decoder of a small model, with other layers."""
    model = tiny_model("model.layers=2")
    layers = []
    for layer in model.decoder.layers:
        del layer.residual.norms["cross_attention"]
        layers.append(
            Layer(
                attention=layer.attention,
                feed_forward=layer.feed_forward,
                residual=layer.residual,
                dropout=0.0,
            )
        )
    return Decoder(
        embedding=model.decoder.embedding,
        position=model.decoder.position,
        cross_position=PositionalEncoding(),
        layers=layers,
        final_norm=RootMeanSquare(16),
        dropout=0.0,
    ).eval()


def test_it_has_the_sublayers_that_it_has(decoder):
    assert [list(layer.parts) for layer in decoder.layers] == [["attention", "feed_forward"]] * 2
    assert not [name for name in decoder.state_dict() if "cross" in name]
    assert isinstance(decoder.layers[0].residual, PreNorm)


def test_step_by_step_equals_the_whole(decoder, sentences):
    tokens = sentences("right", begin=True)
    with torch.no_grad():
        whole = decoder(tokens, decoder.start())
        cache = decoder.start()
        steps = [
            decoder(
                Tokens(
                    tokens.ids[:, positions : positions + 1],
                    tokens.mask[:, positions : positions + 1],
                    tokens.padding,
                ),
                cache,
            )
            for positions in range(tokens.ids.shape[1])
        ]
    real = tokens.mask
    torch.testing.assert_close(torch.cat(steps, dim=1)[real], whole[real], atol=1e-5, rtol=1e-5)


def test_rows_can_be_chosen(decoder, sentences):
    tokens = sentences("none")
    first = Tokens(tokens.ids[:, :3], tokens.mask[:, :3], tokens.padding)
    last = Tokens(tokens.ids[:, 3:], tokens.mask[:, 3:], tokens.padding)
    with torch.no_grad():
        whole = decoder(tokens, decoder.start())[:, 3:]
        cache = decoder.start()
        decoder(first, cache)
        rows = torch.tensor([2, 0])
        cache.select(rows)
        chosen = Tokens(last.ids[rows], last.mask[rows], last.padding)
        torch.testing.assert_close(decoder(chosen, cache), whole[rows], atol=1e-5, rtol=1e-5)


def test_gradient_checkpointing_changes_nothing(decoder, sentences):
    tokens = sentences("right", begin=True)
    gradients = []
    for recompute in (False, True):
        decoder.train().zero_grad()
        decoder.recompute = recompute
        decoder(tokens, decoder.start()).square().sum().backward()
        gradients.append([parameter.grad for parameter in decoder.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
