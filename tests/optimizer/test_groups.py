"""Groups of parameters: what moves which, at which rate, and that a training resumes."""

import copy
import shutil

import pytest
import torch
import yaml
from torch import nn

from plugformer.configuration import dump, resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.model import Sizes
from plugformer.model.build import build
from plugformer.optimizer import JoinedOptimizer, optimizer_of
from plugformer.training.train import resume
from plugformer.validation import validate

WORKED = """
    name: adamw
    lr: 0.001
    groups:
      - {parameters: ["*.bias", "*norm*"], weight_decay: 0}
      - {parameters: ["*.attention.*", "*.feed_forward.*"], name: muon, lr: 0.02, schedule: {name: linear}}
      - {parameters: [encoder], lr_factor: 0.1}
"""


def made(settings, *overrides):
    """Returns a tiny model, and its optimizer with these settings."""
    tiny = ["model.width=16", "model.heads=2", "model.layers=3", *overrides]
    change = {"training": {"optimizer": yaml.safe_load(settings)}}
    resolved = resolve({"extends": "dates", **change}, tiny)
    experiment = Experiment.from_resolved(resolved)
    model = build(experiment.spec, Sizes(12, 12))
    optimizer = optimizer_of(experiment, model)
    return model, optimizer.build(model.named_parameters()), optimizer


def rows(model, built):
    """Returns what moves each parameter: its group's name, learning rate and weight decay."""
    paths = {parameter: path for path, parameter in model.named_parameters()}
    return {
        paths[parameter]: (group.get("name", ""), group["lr"], group["weight_decay"])
        for group in built.param_groups
        for parameter in group["params"]
    }


def test_the_first_match_counts():
    """A group without a name has the options of the block, and one with a name its own."""
    model, built, optimizer = made(WORKED, "model.embeddings={shared: false, tied: false}")
    found = rows(model, built)
    assert found.keys() == dict(model.named_parameters()).keys()
    assert found["encoder.layers.0.attention.query.bias"] == ("groups.0", 0.001, 0.0)
    assert found["decoder.final_norm.weight"] == ("groups.0", 0.001, 0.0)
    assert found["encoder.layers.0.attention.query.weight"] == ("groups.1", 0.02, 0.1)
    assert found["encoder.embedding.weight"] == ("groups.2", pytest.approx(1e-4), 0.01)
    assert found["decoder.embedding.weight"] == ("", 0.001, 0.01)
    assert optimizer.schedules.keys() == {"groups.1"}
    assert optimizer.schedules["groups.1"].factor(100, steps=100, width=1) == 0


def test_without_groups_the_component_itself_builds_the_optimizer():
    _, built, _ = made("{name: adamw, lr: 0.001}")
    assert type(built) is torch.optim.AdamW


def test_rates_fall_from_layer_to_layer():
    """Howard and Ruder 2018, section 3.2; embeddings lie below all layers of their stack."""
    settings = "{name: adamw, lr: 0.001, layer_decay: 0.5, groups: [{parameters: ['*.bias'], lr_factor: 10}]}"
    model, built, _ = made(settings, "model.position=learned", "model.decoder.layers=2")
    rates = {path: rate / 0.001 for path, (_, rate, _) in rows(model, built).items()}
    expected = {
        "encoder.layers.2.attention.query.weight": 1,
        "encoder.layers.0.attention.query.weight": 0.25,
        "encoder.layers.0.attention.query.bias": 2.5,
        "encoder.embedding.weight": 0.125,
        "encoder.position.table.weight": 0.125,
        "encoder.final_norm.weight": 1,
        "decoder.layers.0.attention.query.weight": 0.5,
        "head.weight": 1,
    }
    assert {path: rates[path] for path in expected} == pytest.approx(expected)


def test_tied_and_frozen_parameters():
    tied = "model.embeddings={shared: true, tied: true}"
    settings = "{name: adamw, groups: [{parameters: [decoder.embedding], lr: 0.5}, {parameters: [encoder]}]}"
    model, built, optimizer = made(settings, tied)
    assert rows(model, built)["encoder.embedding.weight"] == ("groups.0", 0.5, 0.01)
    model.encoder.requires_grad_(False)
    names = set(rows(model, optimizer.build(model.named_parameters())))
    assert names == {path for path, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (
            "{parameters: ['*.bais']}",
            r"groups.yaml:6:23  training.optimizer.groups.0.parameters.0: no .*bais'",
        ),
        ("{parameters: [encodr]}", r"6:23 .*no parameter matches 'encodr' \(did you mean 'encoder'"),
        ("{parameters: ['*']}\n      - {parameters: [head]}", r"7:23 .*earlier groups have all .* 'head'"),
        (
            "{parameters: [head], weight_dcay: 0}",
            r"6:30 .*unknown key 'weight_dcay' \(did you mean 'weight_d",
        ),
        ("{parameters: [head], name: lion, epsilon: 1}", r"6:42 .*unknown key 'epsilon'"),
        (
            "{parameters: [head], schedule: {name: linear, final: 2}}",
            r"6:62 .*groups.0.schedule.final: should",
        ),
    ],
)
def test_mistakes_have_a_place(group, message, tmp_path):
    file = tmp_path / "groups.yaml"
    head = "extends: dates\ntraining:\n  optimizer:\n    name: adamw\n    groups:\n"
    file.write_text(f"{head}      - {group}\n")
    with pytest.raises(ConfigurationError, match=message):
        validate(resolve(str(file)))


def test_mistakes_of_the_block_are_reported_once():
    settings = "training.optimizer={name: adamw, lr: -1, groups: [{parameters: [head], epsilon: 1}]}"
    with pytest.raises(ConfigurationError) as caught:
        validate(resolve("dates", [settings]))
    assert str(caught.value).count("greater than 0") == 1


def test_a_group_follows_its_block():
    """Also in the file of a run, where the group has only what was written."""
    groups = "training.optimizer.groups=[{parameters: [head], weight_decay: 0.5}]"
    task = Experiment.from_resolved(resolve("dates", [groups])).task
    written = yaml.safe_load(dump(task))["training"]["optimizer"]
    assert written["groups"] == [{"weight_decay": 0.5, "parameters": ["head"], "lr_factor": 1.0}]
    model, built, _ = made(yaml.dump(written | {"lr": 0.25}))
    assert rows(model, built)["head.weight"] == ("groups.0", 0.25, 0.5)


class Quadratic(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.ones(3, 4)), nn.Parameter(torch.ones(5))

    def moved(self, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            sum((p - 3).square().sum() for p in self.parameters()).backward()
            optimizer.step()
        return [p.detach().clone() for p in self.parameters()]


def parts_of(quadratic):
    return [
        torch.optim.Adam([quadratic.one], lr=0.1),
        torch.optim.SGD([quadratic.other], lr=0.1, momentum=0.9),
    ]


@pytest.mark.parametrize("join", [JoinedOptimizer, lambda parts: JoinedOptimizer([JoinedOptimizer(parts)])])
def test_parts_move_as_they_do_alone(join):
    """At rates that a schedule sets, also after their state is loaded."""
    together, apart, resumed = Quadratic(), Quadratic(), Quadratic()
    one, parts = join(parts_of(together)), parts_of(apart)
    for part in parts:
        apart.moved(part, 3)
    torch.testing.assert_close(together.moved(one, 3), list(apart.parameters()), atol=0, rtol=0)
    resumed.load_state_dict(together.state_dict())
    two = join(parts_of(resumed))
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for group in (*one.param_groups, *two.param_groups, *(g for part in parts for g in part.param_groups)):
        group["lr"] *= 0.5
    for part in parts:
        apart.moved(part, 3)
    for found in (together.moved(one, 3), resumed.moved(two, 3)):
        torch.testing.assert_close(found, list(apart.parameters()), atol=0, rtol=0)


def test_a_training_resumes_exactly(train_tiny, tmp_path, recorder):
    """With a schedule, a decay and an optimizer of its own for some parameters."""
    first = "{parameters: ['*.bias'], weight_decay: 0, schedule: {name: linear, warmup_steps: 0}}"
    groups = f"[{first}, {{parameters: ['*.layers.*'], name: muon}}]"
    settings = f"training.optimizer={{name: adamw, lr: 0.01, layer_decay: 0.5, groups: {groups}}}"
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    short = ("training.steps=4", "training.evaluate_every=2", "evaluation.limit=1", "model.layers=2")
    train_tiny(whole, settings, *short, callbacks=[recorder])
    rates = [update.learning_rates for update in recorder.of("step_ended", "update")]
    assert rates[0].keys() == {"groups.0", "groups.1"}
    assert rates[-1]["groups.0"] == 0 < rates[-1]["groups.1"] == rates[0]["groups.1"]
    shutil.copytree(whole, resumed)
    shutil.rmtree(resumed / "checkpoints/step-00000004")
    resume(resumed, notify=str)
    for file in ("model.safetensors", "checkpoints/step-00000004/training.safetensors"):
        assert (whole / file).read_bytes() == (resumed / file).read_bytes()
