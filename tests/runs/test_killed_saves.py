"""A process is killed at each operation of a save in turn: the old checkpoint is there, or the new one."""

import os
import subprocess
import sys

import pytest

PROGRAM = '''
import os, signal, sys
from pathlib import Path

import torch
from torch import nn

from plugformer.runs import store as weights
from plugformer.runs.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from plugformer.runs.store import remove_leftovers

folder, keep = Path(sys.argv[1]), 1
saving, count, fatal = False, 0, None
fsync, save_file, write_text = os.fsync, weights.save_file, Path.write_text


def happen(half=None):
    global count
    count += saving
    if saving and count == fatal:
        if half is not None:
            os.truncate(half, half.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def audit(event, arguments):
    changes = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}
    if event in changes or event == "open" and "w" in str(arguments[1]):
        happen()


def save(tensors, path, metadata):
    happen()
    save_file(tensors, path, metadata)
    happen(path)


def write(path, text, encoding):
    write_text(path, text, encoding=encoding)
    happen(path)


def flush(descriptor):
    happen()
    fsync(descriptor)


def made(step):
    """Returns a state after some updates, made without computing: a process that has must not fork."""
    model = nn.Linear(2, 3)
    with torch.no_grad():
        [parameter.fill_(step) for parameter in model.parameters()]
    state = TrainingState(model, torch.optim.AdamW(model.parameters()))
    state.progress.step = step
    return state


def last_step():
    state = made(0)
    assert load_checkpoint(folder, state, sys.exit), "no checkpoint is left"
    assert (state.model.weight == state.progress.step).all()
    return state.progress.step


torch.set_num_threads(1)
sys.addaudithook(audit)
weights.save_file, Path.write_text = save, write
os.fsync = flush
save_checkpoint(folder, made(1), keep)
while True:
    fatal = (fatal or 0) + 1
    before = last_step()
    child = os.fork()
    if child == 0:
        saving = True
        save_checkpoint(folder, made(before + 1), keep)
        os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    after = last_step()
    assert after in (before, before + 1), (before, after)
    remove_leftovers(folder)
    left = sorted(path.name for path in folder.iterdir())
    assert all(name.startswith("step-") for name in left), left
    if not killed:
        assert (after, len(left)) == (before + 1, keep), left
        print(fatal - 1)
        break
'''


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")
def test_killed_at_every_operation(tmp_path):
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A folder and four files, each opened, half-written and flushed; the renaming; an old one's five files.
    assert int(done.stdout) >= 20
