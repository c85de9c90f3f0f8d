"""Parameters on disk."""

import os
import stat
from pathlib import Path

import pytest
import torch
from torch import nn

from plugformer.errors import RunError
from plugformer.runs.store import load_tensors, own_tensors, restore, save_tensors


def tied() -> nn.Module:
    model = nn.Module()
    model.embedding = nn.Embedding(4, 3)
    model.head = nn.Linear(3, 4)
    model.head.weight = model.embedding.weight
    model.register_buffer("steps", torch.ones(2))
    return model


def test_a_shared_tensor_is_saved_once_and_comes_back_shared(tmp_path):
    model, path = tied(), tmp_path / "model.safetensors"
    save_tensors(own_tensors(model), path)
    tensors = load_tensors(path)
    assert tensors.keys() == {"embedding.weight", "head.bias", "steps"}
    fresh = tied()
    restore(fresh, tensors, path)
    assert fresh.head.weight is fresh.embedding.weight
    assert torch.equal(fresh.head.weight, model.head.weight)
    assert torch.equal(fresh.head.bias, model.head.bias)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head.bias": None}, "head.bias is missing"),
        ({"extra": torch.ones(1)}, "extra is not part of the model"),
        ({"steps": torch.ones(3)}, r"steps has shape \(3,\).* expects \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_copied(change, message, tmp_path):
    model = tied()
    before = {name: value.clone() for name, value in own_tensors(model).items()}
    changed = {name: value + 1 for name, value in before.items()} | change
    tensors = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(
        RunError, match=rf"run/model does not fit .*{message}.*The file, the task or a component"
    ):
        restore(model, tensors, Path("run/model"))
    assert all(torch.equal(value, before[name]) for name, value in own_tensors(model).items())


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(RunError, match=r"none/model\.safetensors cannot be written"):
        save_tensors({"a": torch.ones(1)}, tmp_path / "none" / "model.safetensors")


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_files_have_the_mode_that_the_umask_gives(tmp_path, umask):
    before = os.umask(umask)
    try:
        save_tensors({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.safetensors").stat().st_mode) == 0o666 & ~umask
