"""Positional encodings seen through their slots, against their formulas."""

import math

import pytest
import torch

from plugformer.interfaces import ModelContext, PositionalEncoding
from plugformer_inspection.positions import view_encoding, view_positions

MODEL = ModelContext(width=12, heads=3, ffn_width=20, max_length=40)
SLOTS = {
    "sinusoidal": {"embed"},
    "learned": {"embed"},
    "rope": {"rotate"},
    "alibi": {"bias"},
    "normalized": {"embed"},
    "t5": {"bias"},
    "none": set(),
}


def view(registry, name):
    return view_encoding(registry.create("position", name, MODEL), length=10, width=12, head_width=4)


def test_each_encoding_shows_the_slots_that_it_fills(registry, any_position):
    found = view(registry, any_position)
    assert {slot for slot in ("embed", "rotate", "bias") if getattr(found, slot) is not None} == SLOTS[
        any_position
    ]


def test_waves_are_those_of_the_paper(registry):
    table = view(registry, "sinusoidal").embed
    assert table[3, 4].item() == pytest.approx(math.sin(3 / 10000 ** (4 / 12)), abs=1e-6)
    assert table[3, 5].item() == pytest.approx(math.cos(3 / 10000 ** (4 / 12)), abs=1e-6)


def test_a_rotated_basis_vector_shows_cosine_and_sine(registry):
    turned = view(registry, "rope").rotate
    assert turned[0, 3].tolist() == pytest.approx([math.cos(3), math.sin(3), 0, 0], abs=1e-6)
    assert turned[2, 3].tolist() == pytest.approx([0, 0, math.cos(0.03), math.sin(0.03)], abs=1e-6)


def test_linear_biases_fall_with_the_slope_of_each_head(registry):
    bias = view(registry, "alibi").bias
    assert bias[:, 7, 3].tolist() == pytest.approx([-4 * 2**-4, -4 * 2**-8, -4 * 2**-2])


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


def test_encodings_that_do_the_same_are_shown_once(tiny_model, tiny_task):
    settings = ("model.position=rope", "model.decoder.cross_attention.position=rope")
    (found,) = view_positions(tiny_model(*settings), tiny_task(*settings))
    assert found.owners == ["encoder", "decoder", "cross-attention"]


def test_learned_positions_differ_from_stack_to_stack(tiny_model, tiny_task):
    views = view_positions(tiny_model(), tiny_task())
    assert [each.owners for each in views] == [["encoder"], ["decoder"]]
    assert all(each.embed.shape == (40, 16) for each in views)
