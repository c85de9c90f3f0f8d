"""Positional encodings seen through their slots, against their formulas."""

import torch

from plugformer.interfaces import ModelContext, PositionalEncoding
from plugformer_inspection.positions import view_encoding, view_positions

MODEL = ModelContext(width=12, heads=3, ffn_width=20, max_length=40)


class Everything(PositionalEncoding):
    """Fills all three slots, as a plugin's encoding may."""

    def embed(self, x, positions):
        return x + positions.index[..., None]

    def rotate(self, heads, positions):
        return -heads

    def bias(self, query, key):
        return (query.index[:, None, :, None] * key.index[:, None, None, :]).float()


def test_an_encoding_of_a_plugin_is_seen_through_the_same_slots():
    found = view_encoding(Everything(), length=5, width=6, head_width=2)
    assert torch.equal(found.embed, torch.arange(5.0)[:, None].expand(5, 6))
    assert torch.equal(found.rotate, -torch.eye(2)[:, None].expand(2, 5, 2))
    assert torch.equal(found.bias, torch.outer(torch.arange(5.0), torch.arange(5.0))[None])


def test_every_encoding_of_a_model_is_seen(tiny_model, tiny_task):
    settings = ("model.position=rope", "model.decoder.cross_attention.position=rope")
    views = view_positions(tiny_model(*settings), tiny_task(*settings))
    assert [each.owner for each in views] == ["encoder", "decoder", "cross-attention"]
    views = view_positions(tiny_model(), tiny_task())
    assert [each.owner for each in views] == ["encoder", "decoder"]
    assert all(each.embed.shape == (40, 16) for each in views)
