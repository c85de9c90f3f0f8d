"""Freezing: which parameters, that they stay, and that nothing is kept for them."""

import pytest
import torch

from plugformer.callbacks import HookManager
from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.hooks import Run, hookimpl
from plugformer.runs.store import load_tensors
from plugformer.validation import validate
from plugformer_plugins.callback.freeze import Freeze


def frozen(model, *patterns):
    manager = HookManager([], pytest.fail, {"freeze": Freeze(parameters=list(patterns))})
    manager.ask("model_built", run=Run(None, None, model, 1, 1))
    return {name for name, each in model.named_parameters() if not each.requires_grad}


@pytest.mark.parametrize(
    ("patterns", "matches"),
    [
        (["encoder"], lambda name: name.startswith("encoder.")),
        (["*.norms.*", "head.weight"], lambda name: ".norms." in name or name == "head.weight"),
        (["encoder.layers.?.attention"], lambda name: name.startswith("encoder.layers.0.attention.")),
    ],
)
def test_patterns(tiny_model, patterns, matches):
    model = tiny_model("model.embeddings.shared=false")
    found = frozen(model, *patterns)
    assert found
    assert found == {name for name, _ in model.named_parameters() if matches(name)}


def test_a_shared_parameter_is_known_by_each_of_its_names(tiny_model):
    model = tiny_model("model.embeddings={shared: true, tied: true}")
    assert frozen(model, "decoder.embedding") == {"encoder.embedding.weight"}


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (
            "[encodr]",
            "training.callbacks.1: no parameter matches 'encodr' .did you mean 'encoder'",
        ),
        ('["*"]', "training.callbacks.1: every parameter is frozen"),
    ],
)
def test_mistakes_are_found_before_data_are_read(patterns, words):
    hooks = f"training.callbacks=[ema, {{name: freeze, parameters: {patterns}}}]"
    with pytest.raises(ConfigurationError, match=words):
        validate(resolve("dates", [hooks]))


def test_frozen_parameters_stay_and_have_no_optimizer_state(train_tiny, tmp_path):
    values, gradients = [], []

    class Watching:
        @hookimpl
        def run_started(self, run):
            values.append(run.model.encoder.state_dict()["layers.0.attention.query.weight"].clone())
            for parameter in run.model.encoder.layers.parameters():
                parameter.register_hook(gradients.append) if parameter.requires_grad else None

    out = tmp_path / "run"
    decay = "training.optimizer={name: adamw, lr: 0.1, weight_decay: 0.5}"
    freeze = "training.callbacks=[{name: freeze, parameters: [encoder.layers]}]"
    train_tiny(out, freeze, decay, callbacks=[Watching()])
    tensors = load_tensors(out / "model.safetensors")
    assert torch.equal(tensors["encoder.layers.0.attention.query.weight"], values[0])
    assert not gradients
    moments = load_tensors(out / "checkpoints/step-00000010/training.safetensors")
    trained = [name for name in tensors if not name.startswith("encoder.layers.")]
    assert sum(name.endswith("exp_avg") for name in moments) == len(trained)
