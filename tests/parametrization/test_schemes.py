"""muP: its table, that nothing changes at the base width, and what a factor in values does."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import ParameterSize, Role, Updates
from plugformer.model import Sizes, build, learning_rates
from plugformer.optimizer import optimizer_of
from plugformer.training.train import resume
from plugformer.validation import validate
from plugformer_plugins.parametrization.schemes import MaximalUpdate

MUP = "model.parametrization={name: mup, base_width: 32}"
TABLE = {  # of table 3, at four times the width with as many heads: values and Adam's learning rate
    "encoder.embedding.weight": (1, 1),
    "decoder.layers.0.attention.value.weight": (1 / 2, 1 / 4),
    "decoder.layers.0.attention.value.bias": (1, 1),
    "decoder.layers.0.attention.query.weight": (1 / 2 / 2, 1 / 4 / 2),  # 1 / d in place of 1 / sqrt(d)
    "decoder.layers.0.attention.query.bias": (1 / 2, 1 / 2),
    "decoder.layers.0.feed_forward.up.weight": (1 / 2, 1 / 4),
    "decoder.layers.0.feed_forward.down.weight": (1, 1),  # as many inputs as in the base model
    "decoder.final_norm.weight": (1, 1),
    "head.weight": (1 / 4, 1 / 4),
}


def made(*overrides, width=128):
    """Returns a model, and the learning rate and the share of decay of each parameter."""
    sizes = [f"model.width={width}", "model.ffn_width=256", "model.layers=1", "training.optimizer.name=adamw"]
    task = resolve("dates", [*sizes, "training.optimizer.lr=1.0", "model.position=learned", *overrides])
    experiment = Experiment.from_resolved(task)
    model = build(experiment.spec, Sizes(12, 12))
    built = optimizer_of(experiment, model).build(model.named_parameters())
    paths = {parameter: path for path, parameter in model.named_parameters()}
    moves = {
        paths[values]: (group["lr"], group["lr"] * group["weight_decay"])
        for group in built.param_groups
        for values in group["params"]
    }
    return model, moves


def size(model, path):
    return model.get_parameter(path).square().mean().sqrt().item()


@pytest.mark.parametrize("scheme", ["default", "normal", "xavier"])
def test_values_and_rates_are_those_of_table_3(scheme):
    """Relative to the base model, whatever draws the values."""
    given = ("model.embeddings={shared: false, scaled: false}", f"model.initialization={scheme}")
    (wide, moves), (base, _) = made(MUP, *given), made(*given, width=32)
    for path, (values, rate) in TABLE.items():
        if any(base.get_parameter(path).flatten()):
            assert size(wide, path) / size(base, path) == pytest.approx(values, rel=0.2), path
        assert moves[path][0] == pytest.approx(rate), path
        decay = 0 if wide.get_parameter(path).dim() < 2 else 0.01
        assert moves[path][1] == pytest.approx(decay), path


def test_scaled_embeddings_move_as_far_after_scaling():
    model, moves = made(MUP, "model.embeddings={shared: false, scaled: true}")
    assert size(model, "encoder.embedding.weight") == pytest.approx(128**-0.5, rel=0.1)
    assert moves["encoder.embedding.weight"][0] == pytest.approx(4**-0.5)


@pytest.mark.parametrize(("scaled", "missing"), [("false", 1 / 4), ("true", 1 / 2)])
def test_the_final_norm_makes_up_for_a_tie(scaled, missing):
    """As an output the embedding would have values and rates of 1 / 4."""
    model, moves = made(MUP, f"model.embeddings={{shared: true, tied: true, scaled: {scaled}}}")
    assert model.decoder.final_norm.weight.tolist() == [missing] * 128
    assert moves["decoder.final_norm.weight"][0] == moves["decoder.final_norm.bias"][0] == missing
    assert moves["encoder.embedding.weight"][0] * missing == 1 / 4
    assert model.encoder.final_norm.weight.tolist() == [1.0] * 128


def test_each_group_is_moved_as_its_optimizer_moves():
    """The norm of Muon's updates, 0.2 sqrt(longest side), becomes sqrt(outputs / inputs)."""
    groups = "[{parameters: ['*.layers.*'], name: muon, lr: 1.0}]"
    _, moves = made(MUP, "model.embeddings.scaled=false", f"training.optimizer.groups={groups}")
    assert moves["decoder.layers.0.attention.value.weight"][0] == pytest.approx(4**-0.5)
    assert moves["decoder.layers.0.feed_forward.up.weight"][0] == pytest.approx(4**-0.5)  # longest is 256
    assert moves["decoder.layers.0.feed_forward.down.weight"][0] == pytest.approx(4**0.5)
    assert moves["decoder.layers.0.attention.value.bias"][0] == 1
    assert moves["head.weight"][0] == 1 / 4


@pytest.mark.parametrize(
    ("role", "fans", "rate"),
    [
        (Role.INPUT, (1.0, 4.0), 4),
        (Role.HIDDEN, (4.0, 4.0), 1),
        (Role.QUERY, (4.0, 4.0), 1 / 4),
        (Role.OUTPUT, (4.0, 1.0), 1 / 4),
    ],
)
def test_rates_of_gradient_descent_are_those_of_table_3(role, fans, rate):
    heads = 4.0 if role is Role.QUERY else 1.0
    size = ParameterSize(role=role, fan_in=fans[0], fan_out=fans[1], longest=4.0, head_width=heads)
    assert MaximalUpdate(base_width=32).rate(size, Updates.GRADIENT) == rate


def test_at_the_base_width_nothing_changes(train_tiny, tmp_path):
    """Also to the last bit of a training; and standard builds no base model."""
    short = ("training.steps=3", "training.evaluate_every=3", "model.embeddings={shared: true, tied: true}")
    for name, scheme in (("standard", "standard"), ("mup", "{name: mup, base_width: 16, base_heads: 2}")):
        train_tiny(tmp_path / name, f"model.parametrization={scheme}", *short)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("standard", "mup"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[path], other[path]) for path in one)
    assert learning_rates(made()[0], lambda *_: Updates.ADAPTIVE) == {}


def test_a_training_resumes_exactly(train_tiny, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_tiny(
        whole,
        "model.parametrization={name: mup, base_width: 8}",
        "training.steps=4",
        "training.evaluate_every=2",
    )
    shutil.copytree(whole, resumed)
    shutil.rmtree(resumed / "checkpoints/step-00000004")
    resume(resumed, notify=str)
    for file in ("model.safetensors", "checkpoints/step-00000004/training.safetensors"):
        assert (whole / file).read_bytes() == (resumed / file).read_bytes()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.parametrization.base_width=30", r"model.parametrization: 4 heads do not divide the width 30"),
        ("model.embeddings={shared: true, tied: true}", r"model.embeddings.tied: .*final norm"),
        ("training.optimizer={name: local_sgd, lr: 0.1}", r"SGD does not say how large its updates are"),
    ],
)
def test_what_it_cannot_scale_is_refused(override, message, tmp_path):
    code = "import torch\nfrom plugformer.interfaces import Optimizer\nclass SGD(Optimizer):\n"
    code += "    def __init__(self, *, lr: float = 0.1): self.lr = lr\n"
    code += "    def build(self, named): return torch.optim.SGD([p for _, p in named], lr=self.lr)\n"
    (tmp_path / "local_sgd.py").write_text(code)
    (tmp_path / "registry.yaml").write_text("components: {optimizer: {local_sgd: 'local_sgd:SGD'}}")
    given = [MUP, "model.final_norm=false", f"registry={tmp_path}/registry.yaml", override]
    with pytest.raises(ConfigurationError, match=message):
        validate(resolve("dates", given))


def test_a_callback_may_not_add_parameters():
    model = made(MUP)[0]
    model.head.extra = torch.nn.Linear(2, 2)
    with pytest.raises(ConfigurationError, match=r"width 32 has no head\.extra\.weight"):
        learning_rates(model, lambda *_: Updates.ADAPTIVE)
