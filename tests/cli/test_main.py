"""How the command line starts and ends: help, version, mistakes, exit statuses."""

import signal
from pathlib import Path

import pytest

from plugformer.errors import InterruptedRunError, RunError
from plugformer_cli import listing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian", "dates"], "unknown command 'trian' (did you mean 'train'?)\n  known: ablate, check"),
        (["list", "atention"], "unknown kind 'atention' (did you mean 'attention'?)"),
        (["list", "--jsn"], "--json"),
        (["info", "atention/gqa"], "unknown kind 'atention' (did you mean 'attention'?)"),
        (["info", "gqa"], "write `plugformer info attention/gqa`"),
        (["info", "attention"], "`plugformer list attention` shows its components"),
        (["info", "attention/gqa", "--set", "a=1"], "attention/gqa is not a task"),
        (["train"], "no TASK given\n  known: ag-news, brackets, copying, couplets, dates, "),
        (["train", "--resume"], "write `plugformer train --resume --out DIR`"),
        (["train", "dates", "--resume", "--out", "runs/a"], "write `plugformer train --resume --out runs/a`"),
        (["predict", "runs/a", "text", "--file", "b"], "TEXT and --file exclude each other"),
        (["predict", "runs/a", "text", "--input", "first"], "--input says what vectors are of"),
        (["predict", "runs/a", "text", "--out", "b.csv"], "--out needs a --file"),
        (["predict", "runs/a", "--file", "nothing.txt"], "nothing.txt: no such file"),
        (["list", "--registry", "nothing.yaml"], "nothing.yaml' cannot be read"),
        (["--registry", "nothing.yaml", "list"], "nothing.yaml' cannot be read"),
    ],
)
def test_a_mistake_is_named_without_a_traceback(run, arguments, message):
    outcome = run(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_the_help_works_with_a_manifest_that_does_not(run):
    outcome = run("--registry", "nothing.yaml", "--help")
    assert outcome.status == 0
    assert "train" in outcome.out
    assert "Commands of plugins are not shown: the local manifest" in outcome.out


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RunError("no run x\nlook again"), 2, "Error: no run x\n  look again\n"),
        (InterruptedRunError("Interrupted at step 3/10."), 130, "Interrupted at step 3/10.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (FileNotFoundError(2, "No such file", "a.txt"), 2, "Error: [Errno 2] No such file: 'a.txt'\n"),
    ],
)
def test_an_error_decides_the_exit_status(run, monkeypatch, error, status, message):
    def fail(ctx, local=None):
        raise error

    monkeypatch.setattr(listing, "installed", fail)
    outcome = run("list")
    assert (outcome.status, outcome.out, outcome.err) == (status, "", message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ZeroDivisionError("by zero"),
            "unexpected error: ZeroDivisionError: by zero",
        ),
        (MemoryError(), "Error: there is not enough memory (MemoryError: no message)"),
        (RuntimeError("can't allocate memory: 9"), "Error: there is not enough memory (RuntimeError: can't"),
    ],
)
def test_any_other_error_ends_in_words_with_its_traceback_in_a_file(run, monkeypatch, error, message):
    def fail(ctx, local=None):
        raise error

    monkeypatch.setattr(listing, "installed", fail)
    outcome = run("list")
    assert (outcome.status, outcome.out) == (2 if "memory" in message else 1, "")
    assert outcome.err.startswith(message)
    file = Path(outcome.err.split()[-1])
    assert type(error).__name__ in file.read_text()
    assert len(outcome.err.splitlines()) <= 2


def test_control_characters_do_not_reach_the_terminal(run, manifest):
    clearing = 'class M:\n    """x\\x1b[2J\\x1b]0;title\\x07"""\n'
    file = manifest("components: {norm: {mine: 'local_m:M'}}", local_m=clearing)
    for arguments in (["list", "--registry", str(file)], ["train", "\x1b[2J"]):
        outcome = run(*arguments)
        assert not {"\x1b", "\x07"} & {*outcome.out, *outcome.err}
        assert "\\x1b" in outcome.out + outcome.err


STOPPING = """\
import os, signal
from plugformer.interfaces import Data

class Stopping(Data):
    def load(self, task_type):
        os.kill(os.getpid(), signal.SIGINT)
"""
STOPPING_MANIFEST = "components: {data: {stopping: {class: 'local_stopping:Stopping'}}}"


@pytest.fixture
def listening():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("rank", "said"), [(None, "Interrupted.\n"), ("1", "")])
def test_ctrl_c_before_training_leaves_nothing(run, manifest, tmp_path, monkeypatch, listening, rank, said):
    """Of the processes that a launcher has started, one speaks."""
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    path = manifest(STOPPING_MANIFEST, local_stopping=STOPPING)
    out = tmp_path / "runs" / "one"
    outcome = run("train", "dates", "--registry", str(path), "--set", "data=stopping", "--out", str(out))
    assert (outcome.status, outcome.out, outcome.err) == (130, "", said)
    assert list((tmp_path / "runs").iterdir()) == []
