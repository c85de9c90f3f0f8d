"""Checkpoints: complete, never half-written, never executed."""

import errno
import json
import os
import pickle
import random
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from plugformer.errors import RunError
from plugformer.runs import store
from plugformer.runs.checkpoint import (
    TrainingProgress,
    TrainingState,
    load_checkpoint,
    save_checkpoint,
)
from plugformer.runs.store import join_tensors, split_tensors

KEEP = 5
SUMS = {"loss": 1.5, "targets": 2.0, "tokens": 3.0, "seconds": 0.5}


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
    made.progress = TrainingProgress(
        step=1, epoch=2, batch=3, best=0.5, best_rank=(False, 0.5, 1.25), waited=4, seconds=1.5, unlogged=SUMS
    )
    save_checkpoint(tmp_path, made, KEEP)
    return made


def test_training_goes_on_as_if_nothing_had_happened(state, tmp_path):
    expected = [advance(state) for _ in range(3)]
    fresh = make(2)
    assert load_checkpoint(tmp_path, fresh, pytest.fail)
    assert fresh.progress == TrainingProgress(
        step=1, epoch=2, batch=3, best=0.5, best_rank=(False, 0.5, 1.25), waited=4, seconds=1.5, unlogged=SUMS
    )
    assert [advance(fresh) for _ in range(3)] == expected


def test_the_newest_is_loaded_and_the_oldest_go(state, tmp_path):
    for _ in range(3):
        advance(state)
        save_checkpoint(tmp_path, state, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    fresh = make(2)
    load_checkpoint(tmp_path, fresh, pytest.fail)
    assert fresh.progress.step == 4


class Failing:
    """Makes one of all the calls that write to the disk fail, as on a full disk; counts them."""

    def __init__(self, monkeypatch, at: int | None):
        self.at, self.calls = at, 0
        for owner, name in [
            (store, "save_file"),
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
            expected = r"/step-00000002 cannot be written: No space left on device"
            with pytest.raises(RunError, match=expected):
                save_checkpoint(folder, state, KEEP)
        assert {path.name for path in folder.iterdir()} == {"step-00000001", "elsewhere"}, moment
        assert all(path.read_bytes() == content for path, content in before.items())
    assert load_checkpoint(folder, make(2), pytest.fail)


def damage(checkpoint, file, how):
    """Damages a file of a checkpoint as disks and people do."""
    path = checkpoint / file
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "one bit":  # in the middle of the last tensor
        place = len(content) - 3
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    else:
        path.write_bytes({"empty": b"", "truncated": content[:-5], "a pickle": pickle.dumps({"a": 1})}[how])


@pytest.mark.parametrize(
    ("file", "how"),
    [
        *product(["model.safetensors", "training.safetensors"], ["one bit", "truncated", "a pickle"]),
        *product(["state.json"], ["missing", "truncated"]),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_can_be_loaded(state, tmp_path, file, how):
    advance(state)
    newest = save_checkpoint(tmp_path, state, KEEP)
    damage(newest, file, how)
    fresh = make(2)
    before = [parameter.clone() for parameter in fresh.model.parameters()]
    with pytest.raises(RunError, match=rf"{newest / file} is (damaged|missing)[\s\S]*remove {newest} to"):
        load_checkpoint(tmp_path, fresh, pytest.fail)
    assert all(map(torch.equal, before, fresh.model.parameters()))
    shutil.rmtree(newest)
    assert load_checkpoint(tmp_path, fresh, pytest.fail)
    assert fresh.progress.step == 1


def test_every_generator_goes_on(state, tmp_path):
    def draw():
        return (
            random.uniform(0, 1),  # noqa: S311
            random.gauss(0, 1),
            np.random.random(),
            np.random.randn(),
            torch.rand(2).tolist(),
        )

    draw()  # half of a pair of normal numbers is left, in Python and in NumPy
    state.progress.step += 1
    save_checkpoint(tmp_path, state, KEEP)
    expected = [draw(), draw()]
    assert load_checkpoint(tmp_path, make(2), pytest.fail)
    assert [draw(), draw()] == expected


def test_the_factor_of_float16_gradients_goes_on(state, tmp_path):
    """On a GPU alone it is used; its scaler computes anywhere."""

    def growing(scale):
        return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)

    state.scaler, state.progress.step = growing(8.0), 2
    for loss in (torch.inf, 1.0):  # an overflow halves it; of the three updates until it doubles, one is made
        state.scaler.scale(state.model(torch.ones(3)).sum() * loss).backward()
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad()
    save_checkpoint(tmp_path, state, KEEP)
    resumed = make(2)
    resumed.scaler = growing(8.0)
    load_checkpoint(tmp_path, resumed, pytest.fail)
    assert resumed.scaler.state_dict() == state.scaler.state_dict()
    assert (resumed.scaler.get_scale(), resumed.scaler.state_dict()["_growth_tracker"]) == (4.0, 1)


def test_whatever_an_optimizer_keeps_comes_back():
    kept = {
        0: {"k": 2**60, "rate": 0.1, "on": True, "name": "b", "none": None},
        "factors": [torch.eye(2), (torch.ones(1, dtype=torch.float64), [])],
        "tensor": {"tensor": torch.tensor(3), 1.5: torch.ones(4, 4).T[1:]},
        # Keys that look alike.
        1: torch.tensor(1),
        "1": torch.tensor(2),
        "a/b": torch.tensor(3),
        "a": {"b": torch.tensor(4)},
    }
    record, tensors = split_tensors(kept, "optimizer")
    assert len(tensors) == 8
    assert str(join_tensors(json.loads(json.dumps(record)), tensors)) == str(kept)


def test_what_an_optimizer_cannot_keep(state, tmp_path):
    next(iter(state.optimizer.state.values()))["secret"] = {1, 2}
    state.progress.step = 2
    with pytest.raises(RunError, match=r"a set at training/optimizer/state/0/secret"):
        save_checkpoint(tmp_path, state, KEEP)
