"""Checkpoints: complete, never half-written, never executed."""

import errno
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from plugformer.errors import RunError
from plugformer.runs import files, weights
from plugformer.runs.checkpoint import Progress, TrainingState, load_checkpoint, save_checkpoint

KEEP = 5


def make(seed: int, optimizer=torch.optim.AdamW) -> TrainingState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    return TrainingState(model, optimizer(model.parameters(), lr=0.1))


def advance(state: TrainingState) -> list[float]:
    """Makes an update from random inputs."""
    output = state.model(torch.randn(5, 3)).square().mean()
    output.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.progress.step += 1
    return [value for parameter in state.model.parameters() for value in parameter.flatten().tolist()]


@pytest.fixture
def state(tmp_path) -> TrainingState:
    made = make(1)
    advance(made)
    made.progress = Progress(step=1, epoch=2, batch=3, best=0.5, waited=4, seconds=1.5)
    save_checkpoint(tmp_path, made, KEEP)
    return made


def test_training_goes_on_as_if_nothing_had_happened(state, tmp_path):
    expected = [advance(state) for _ in range(3)]
    fresh = make(2)
    assert load_checkpoint(tmp_path, fresh)
    assert fresh.progress == Progress(step=1, epoch=2, batch=3, best=0.5, waited=4, seconds=1.5)
    assert [advance(fresh) for _ in range(3)] == expected


def test_no_checkpoint_yet(tmp_path):
    assert not load_checkpoint(tmp_path, make(1))


def test_the_newest_is_loaded_and_the_oldest_go(state, tmp_path):
    for _ in range(3):
        advance(state)
        save_checkpoint(tmp_path, state, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    fresh = make(2)
    load_checkpoint(tmp_path, fresh)
    assert fresh.progress.step == 4


def test_there_are_only_safetensors_and_json(state, tmp_path):
    assert {path.name for path in (tmp_path / "step-00000001").iterdir()} == {
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    }


class Failing:
    """Makes one of all the calls that write to the disk fail, as on a full disk; counts them."""

    def __init__(self, monkeypatch, at: int | None):
        self.at, self.calls = at, 0
        for owner, name in [
            (weights, "save_file"),
            (Path, "write_text"),
            (Path, "mkdir"),
            (Path, "replace"),
            (os, "fsync"),
        ]:
            monkeypatch.setattr(owner, name, self.wrapped(getattr(owner, name)))

    def wrapped(self, function):
        def call(*arguments, **options):
            self.calls += 1
            if self.calls - 1 == self.at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)

        return call


def test_a_full_disk_at_any_moment_loses_nothing(state, tmp_path, monkeypatch):
    folder, elsewhere = tmp_path, tmp_path / "elsewhere"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    advance(state)
    elsewhere.mkdir()
    with monkeypatch.context() as patch:
        counted = Failing(patch, at=None)
        save_checkpoint(elsewhere, state, KEEP)
    # The last call makes the new name durable: the checkpoint is complete by then.
    moments = range(counted.calls - 1)
    assert len(moments) >= 9  # a folder, three files, their flushes, the renaming
    for moment in moments:
        with monkeypatch.context() as patch:
            Failing(patch, at=moment)
            expected = (
                r"/step-00000002 cannot be written: No space left on device; what was there before is kept"
            )
            with pytest.raises(RunError, match=expected):
                save_checkpoint(folder, state, KEEP)
        assert {path.name for path in folder.iterdir()} == {"step-00000001", "elsewhere"}, moment
        assert all(path.read_bytes() == content for path, content in before.items())
    assert load_checkpoint(folder, make(2))


def test_a_model_file_survives_a_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    weights.save_tensors({"a": torch.ones(2)}, path)

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(weights, "save_file", full)
    with pytest.raises(
        RunError, match=r"model\.safetensors cannot be written: No space .* go on with --resume"
    ):
        weights.save_tensors({"a": torch.zeros(2)}, path)
    assert torch.equal(weights.load_tensors(path)["a"], torch.ones(2))
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]


def test_an_interruption_while_saving_leaves_no_half(tmp_path, monkeypatch):
    def interrupted(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        weights.save_tensors({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", None, r"model\.safetensors is missing"),
        ("model.safetensors", b"", r"model\.safetensors is damaged"),
        ("model.safetensors", pickle.dumps({"a": 1}), r"model\.safetensors is damaged"),
        ("optimizer.safetensors", pickle.dumps({"a": 1}), r"optimizer\.safetensors is damaged"),
        ("state.json", None, r"state\.json is missing"),
        ("state.json", b"{", r"state\.json is damaged"),
        ("state.json", b"[]", r"step-00000001 is damaged or belongs to another optimizer"),
        ("state.json", b"{}", r"step-00000001 is damaged .* KeyError: 'progress'"),
        ("state.json", b'{"progress": {"stage": 1}, "groups": []}', r"unexpected keyword argument 'stage'"),
        (
            "state.json",
            b'{"progress": {}, "groups": []}',
            r"damaged or belongs to another optimizer: ValueError",
        ),
    ],
)
def test_damaged_checkpoints(state, tmp_path, file, content, message):
    path = tmp_path / "step-00000001" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(RunError, match=message):
        load_checkpoint(tmp_path, make(2))


def test_without_the_generators_state(state, tmp_path):
    path = tmp_path / "step-00000001" / "optimizer.safetensors"
    tensors = weights.load_tensors(path)
    weights.save_tensors({name: t for name, t in tensors.items() if not name.startswith("generator")}, path)
    with pytest.raises(RunError, match=r"damaged .* Remove it to go on from the checkpoint before it"):
        load_checkpoint(tmp_path, make(2))


def test_of_another_model(state, tmp_path):
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2), nn.Linear(2, 2))
    other = TrainingState(model, torch.optim.AdamW(model.parameters()))
    expected = (
        r"does not fit the model .*: 0\.bias has shape \(4,\), the model expects \(5,\); .*2\.bias is missing"
    )
    with pytest.raises(RunError, match=expected):
        load_checkpoint(tmp_path, other)


def test_nothing_is_unpickled(state, tmp_path, monkeypatch):
    """Every door to pickle is nailed up while a checkpoint is loaded."""
    for module, name in [(pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")]:
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("unpickled"))
    assert load_checkpoint(tmp_path, make(2))


def test_json_files_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    files.write_json(path, {"a": "ü"})
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error"))
    )
    with pytest.raises(RunError, match=r"state\.json cannot be written: I/O error"):
        files.write_json(path, {"a": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": "ü"}
    assert files.read_json(path) == {"a": "ü"}
