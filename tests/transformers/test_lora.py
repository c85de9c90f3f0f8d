"""Low-rank updates: what is trained, from which initial values, and what else sees them."""

import pytest
import torch

from plugformer.callbacks import HookManager
from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.hooks import Run, hookimpl
from plugformer.validation import validate
from plugformer_transformers.lora import LoRA

NAMES = "*.parametrizations.weight.0"


def trainable(model, **options):
    manager = HookManager([], pytest.fail, {"lora": LoRA(**options)})
    manager.ask("model_built", run=Run(None, None, model, 1, 1))
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, each in named if each.requires_grad and ".parametrizations." not in name}


@pytest.mark.parametrize("also", ["head", "encoder.embedding", "decoder.embedding"])
def test_a_shared_parameter_is_trained_by_any_of_its_names(tiny_model, also):
    shared = tiny_model("model.embeddings={shared: true, tied: true}")
    names = {"encoder.embedding.weight", "decoder.embedding.weight", "head.weight"}
    assert trainable(shared, also=[also]) == names
    assert trainable(tiny_model("model.embeddings={shared: false, tied: false}")) == {"head.weight"}


def test_another_replicate_begins_with_other_updates(train_tiny, tmp_path):
    begun = []

    class Watching:
        @hookimpl
        def run_started(self, run):
            modules = run.model.encoder.layers[0].attention.query.parametrizations.weight
            begun.append(modules[0].a.detach().clone())

    settings = ["training.callbacks=[lora]", "training.steps=1"]
    for number, other in enumerate(["training.replicate=0", "training.replicate=0", "training.replicate=1"]):
        train_tiny(tmp_path / str(number), *settings, other, callbacks=[Watching()])
    first, again, third = begun
    assert torch.equal(first, again)
    assert not torch.isclose(first, third).any()


def test_freeze_and_groups_see_the_updates(train_tiny, tmp_path):
    frozen = []

    class Watching:
        @hookimpl
        def run_started(self, run):
            updates = run.model.encoder.layers[0].attention.query.parametrizations.weight[0]
            frozen.append((updates.a.requires_grad, updates.b.requires_grad))

    settings = [
        f'training.callbacks=[lora, {{name: freeze, parameters: ["{NAMES}.a"]}}]',
        f'training.optimizer={{name: adamw, groups: [{{parameters: ["{NAMES}.b"], lr_factor: 16}}]}}',
    ]
    validate(resolve("dates", settings))
    train_tiny(tmp_path / "run", *settings, "training.steps=2", callbacks=[Watching()])
    assert frozen == [(False, True)]


@pytest.mark.parametrize(
    ("callbacks", "found"),
    [
        (f'[{{name: freeze, parameters: ["{NAMES}.a"]}}, lora]', "callbacks.0: no parameter matches"),
        ("[lora, {name: lora, modules: [key]}]", "callbacks.1: .*list `lora` once"),
        ("[{name: lora, modules: [quer]}]", "callbacks.0: no linear map matches 'quer'"),
    ],
)
def test_mistakes_are_found_before_data_are_read(callbacks, found):
    with pytest.raises(ConfigurationError, match=found):
        validate(resolve("dates", [f"training.callbacks={callbacks}"]))
