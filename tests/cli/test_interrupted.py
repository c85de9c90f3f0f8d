"""Ctrl-C before there is anything to save: one line, status 130, nothing left behind."""

import signal

import pytest

STOPPING = """\
import os, signal
from plugformer.interfaces import Data

class Stopping(Data):
    def load(self, task_type):
        os.kill(os.getpid(), signal.SIGINT)
"""
MANIFEST = "components: {data: {stopping: {class: 'local_stopping:Stopping'}}}"


@pytest.fixture
def listening():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("rank", "said"), [(None, "Interrupted.\n"), ("0", "Interrupted.\n"), ("1", "")])
def test_while_data_are_prepared(run, manifest, tmp_path, monkeypatch, listening, rank, said):
    """Of the processes that a launcher has started, one speaks."""
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    path = manifest(MANIFEST, local_stopping=STOPPING)
    out = tmp_path / "runs" / "one"
    outcome = run("train", "dates", "--registry", str(path), "--set", "data=stopping", "--out", str(out))
    assert (outcome.status, outcome.out, outcome.err) == (130, "", said)
    assert list((tmp_path / "runs").iterdir()) == []
