"""Places that really take nothing: files limited in size, a directory that is read-only now, a full disk."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from plugformer.errors import RunError
from plugformer.runs.checkpoint import TrainingState, load_checkpoint, save_checkpoint

NOBODY = 65534


def made(step: int) -> TrainingState:
    model = nn.Linear(100, 100)
    state = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1))
    state.progress.step = step
    return state


@contextmanager
def read_only(folder: Path):
    """Takes the right to write from this process: by permissions, which do not bind root, or as nobody."""
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        folder.chmod(mode)


@pytest.fixture
def folder():
    """A folder that anybody may enter, with a checkpoint."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    save_checkpoint(path, made(1), 2)
    yield path
    shutil.rmtree(path)


def assert_the_first_is_kept(folder):
    assert [path.name for path in folder.iterdir()] == ["step-00000001"]
    state = made(0)
    assert load_checkpoint(folder, state, pytest.fail)
    assert state.progress.step == 1


def test_a_directory_that_has_become_read_only(folder):
    with read_only(folder), pytest.raises(RunError) as caught:
        save_checkpoint(folder, made(2), 2)
    assert "step-00000002 cannot be written: Permission denied" in str(caught.value)
    assert_the_first_is_kept(folder)
