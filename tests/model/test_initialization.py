"""Initial values: a function of seed and path alone."""

import math

import pytest
import torch
from torch import nn

from plugformer.reproducibility import random_stream


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def shared(one: dict, other: dict) -> list[str]:
    """Returns the names at which two models have equal values that are not all the same number."""
    return [
        name
        for name in one.keys() & other.keys()
        if torch.equal(one[name], other[name]) and one[name].unique().numel() > 1
    ]


def test_the_same_seed_gives_the_same_bits_whatever_was_drawn_before(tiny_model):
    first = values(tiny_model())
    torch.rand(7)
    second = values(tiny_model())
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_another_seed_gives_other_values(tiny_model, any_initialization):
    one, two = (
        tiny_model(f"training.seed={seed}", f"model.initialization={any_initialization}") for seed in (1, 2)
    )
    assert shared(values(one), values(two)) == []


def test_arms_share_what_they_have_in_common(tiny_model):
    mha, gqa = values(tiny_model()), values(tiny_model("model.attention={name: gqa, kv_heads: 1}"))
    same = {name for name in mha if torch.equal(mha[name], gqa[name])}
    different = {name.rsplit(".", 2)[-2] for name in mha.keys() - same}
    assert different == {"key", "value"}


def test_default_values_are_those_of_torch(tiny_model):
    """torch.nn.Linear: uniform on ±1 / sqrt(inputs); embeddings: normal with deviation one."""
    model = tiny_model("model.width=64", "model.ffn_width=256")
    weight = model.encoder.layers[0].feed_forward.up.weight
    assert weight.abs().max() <= 1 / 8
    assert weight.std().item() == pytest.approx(1 / 8 / math.sqrt(3), rel=0.05)
    assert model.encoder.embedding.weight.std().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("setting", ["{scaled: true, shared: true}", "{tied: true, shared: true}"])
def test_scaled_and_tied_embeddings_start_small(tiny_model, setting):
    model = tiny_model("model.width=64", f"model.embeddings={setting}")
    assert model.encoder.embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.1)


def test_xavier_fills_its_bounds(tiny_model):
    """Glorot and Bengio 2010, equation 16: uniform on ±sqrt(6 / (inputs + outputs))."""
    model = tiny_model("model.initialization=xavier", "model.width=64", "model.ffn_width=256")
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.95 * bound < parameter.abs().max() <= bound, name
        else:
            assert name.endswith("bias") or "norm" in name
    plain = tiny_model("model.width=64", "model.ffn_width=256")
    assert torch.equal(
        plain.encoder.layers[0].feed_forward.up.bias, model.encoder.layers[0].feed_forward.up.bias
    )


def test_a_random_stream_depends_on_seed_and_name_and_leaves_no_trace():
    def draw(seed: int, name: str) -> list[float]:
        with random_stream(seed, name):
            return torch.rand(3).tolist()

    before = torch.get_rng_state()
    assert draw(1, "a") == draw(1, "a")
    assert len({tuple(draw(seed, name)) for seed in (1, 2) for name in ("a", "b")}) == 4
    assert torch.equal(torch.get_rng_state(), before)


def test_a_replicate_has_values_of_its_own_and_the_first_those_of_the_seed(tiny_model):
    zero, one, two = (values(tiny_model(f"training.replicate={number}")) for number in range(3))
    plain = values(tiny_model())
    assert all(torch.equal(zero[name], plain[name]) for name in plain)
    assert shared(plain, one) == shared(one, two) == shared(plain, two) == []


def test_whatever_torch_makes_by_default_parameters_are_float32(tiny_model, any_position):
    setting = f"model.position={any_position}"
    expected = values(tiny_model(setting))
    torch.set_default_dtype(torch.float64)
    try:
        found = values(tiny_model(setting))
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert {name: value.dtype for name, value in found.items()} == dict.fromkeys(expected, torch.float32)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
