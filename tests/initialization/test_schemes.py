"""Initial values of every scheme, by their papers; Xavier's and the default's are in tests/model."""

import pytest
import torch
from torch import nn

LARGE = ("model.width=64", "model.ffn_width=256", "model.layers=2")


def sublayer_maps(name: str) -> bool:
    return name.split(".")[-2] in ("down", "output")


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_normal_is_gpt2s(tiny_model, deviation):
    """Radford et al. 2019, section 2.3: by the root of N residual layers, 2 a layer, or 3 with a source."""
    model = tiny_model(*LARGE, f"model.initialization={{name: normal, deviation: {deviation}}}")
    for name, value in model.named_parameters():
        expected = deviation
        if "layers" in name and sublayer_maps(name):
            expected /= (2 * 2 if name.startswith("encoder") else 2 * 3) ** 0.5
        if value.dim() > 1:
            assert value.std().item() == pytest.approx(expected, rel=0.1), name
            assert value.abs().max() > 2.5 * expected, name
        elif "norm" in name:
            assert value.tolist() == [float(name.endswith("weight"))] * 64
        else:
            assert name.endswith("bias")
            assert not value.any()


def test_normal_may_treat_all_sublayers_alike(tiny_model):
    model = tiny_model(*LARGE, "model.initialization={name: normal, residual: false}")
    assert model.decoder.layers[0].attention.output.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_truncated_normal_is_berts(tiny_model):
    model = tiny_model(*LARGE, "model.initialization=truncated_normal")
    for name, value in model.named_parameters():
        if value.dim() > 1:
            # a normal distribution cut at two deviations has 0.8796 of its deviation
            assert value.std().item() == pytest.approx(0.8796 * 0.02, rel=0.1), name
            assert value.abs().max() <= 0.04, name


def test_experts_are_on_the_residual_path(tiny_model):
    setting = "model.feed_forward={name: moe, experts: 2}"
    model = tiny_model(*LARGE, setting, "model.initialization=normal")
    for expert in model.encoder.layers[0].feed_forward.experts:
        assert expert.down.weight.std().item() == pytest.approx(0.02 / 2, rel=0.1)
        assert expert.up.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert model.encoder.layers[0].feed_forward.router.weight.std().item() == pytest.approx(0.02, rel=0.4)


def test_a_scheme_leaves_what_the_module_says(tiny_model):
    """LayerScale's vectors start where they say, whatever the scheme."""
    model = tiny_model("model.initialization=normal", "model.residual={name: layer_scale, init: 0.25}")
    scales = [layer.residual.scales for stack in (model.encoder, model.decoder) for layer in stack.layers]
    assert {value for each in scales for scale in each.values() for value in scale.tolist()} == {0.25}
    assert isinstance(model.encoder.layers[0].residual.scales, nn.ParameterDict)
    assert torch.equal(model.encoder.final_norm.weight, torch.ones(16))
