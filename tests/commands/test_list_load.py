"""`plugformer list --load`: whatever a plugin does when it is imported is told, and ends nothing else."""

import json
import subprocess
import sys
from dataclasses import astuple

import pytest

from plugformer.commands import listing
from plugformer.registry import State

NORM = """
from plugformer.interfaces import Norm

class Part(Norm):
    def __init__(self, model{options}):
        super().__init__()
        {body}

    def forward(self, x):
        return x
"""
SOUND = NORM.format(options="", body="pass")


@pytest.fixture
def load(manifest, run):
    """Lists norms of one local module each, after trying them; returns their states by name."""

    def load(arguments=(), *, apart=False, **parts):
        entries = "".join(f'    {name}: {{class: "local_{name}:Part"}}\n' for name in parts)
        file = manifest(
            f"components:\n  norm:\n{entries}", **{f"local_{name}": code for name, code in parts.items()}
        )
        command = ["list", "norm", "--load", "--json", "--registry", str(file), *arguments]
        if apart:
            command = [sys.executable, "-m", "plugformer", *command]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found, said = done.stdout, done.stderr
        else:
            _, found, said = astuple(run(*command))
        assert said == ""
        records = json.loads(found)
        assert {record["state"] for record in records if record["distribution"] == "plugformer"} == {"ready"}
        return {record["name"]: record["state"] for record in records if record["distribution"] == "local"}

    return load


def test_what_cannot_be_constructed_otherwise_than_it_should_is_broken(load):
    states = load(
        apart=True,  # what a module prints goes past Python's own streams as well
        sound="print('noise'); import sys; sys.stderr.write('noise')" + SOUND,
        picky=NORM.format(
            options="",
            body="from plugformer.errors import ConfigurationError; raise ConfigurationError('17')",
        ),
        needy=NORM.format(options=", *, must: int", body="1 / 0"),
        untyped=NORM.format(options=", *, option=1", body="pass"),
        faulty=NORM.format(options="", body="1 / 0"),
    )
    assert {name for name, state in states.items() if state == "ready"} == {"sound", "picky", "needy"}
    assert "norm 'faulty' (local): constructing it failed: ZeroDivisionError" in states["faulty"]
    assert "option 'option' has no type annotation" in states["untyped"]


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import os; os._exit(7)", "ended the process with status 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended the process by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 40)", "ended the process by signal 40"),
        (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
            "did not finish in 6 s",
        ),
    ],
)
def test_a_process_that_ends_takes_along_what_comes_after_only(load, code, end):
    states = load(["--limit", "6"], a=SOUND, before=SOUND, but=code, then=SOUND)
    assert states == {
        "a": "ready",
        "before": "ready",
        "but": f"broken: loading local_but:Part {end}",
        "then": f"broken: not tried, because loading local_but:Part {end}",
    }


def test_commands_and_tasks_are_tried_too(manifest, run):
    file = manifest(
        'commands: {lost: {function: "local_lost:command"}}\ntasks: {gone: {file: "colorsys:gone.yaml"}}'
    )
    states = {}
    for kind in ("command", "task"):
        listed = run("list", kind, "--json", "--load", "--registry", str(file)).out
        states |= {record["name"]: record["state"] for record in json.loads(listed)}
    assert "No module named 'local_lost'" in states["lost"]
    assert states["gone"].startswith("broken: 'colorsys' is a module")
    assert states["dates"] == "ready"


def test_hook_modules_are_tried_too(manifest, run):
    hook = "from plugformer.hooks import hookimpl\n@hookimpl\ndef {}(run): pass\n"
    file = manifest(
        "hooks: [local_sound, local_lost, local_misspelt, local_leaves]",
        local_sound=hook.format("run_ended"),
        local_misspelt=hook.format("run_endet"),
        local_leaves="raise SystemExit(3)",
    )
    listed = run("list", "hooks", "--json", "--load", "--registry", str(file)).out
    states = {record["name"]: record["state"] for record in json.loads(listed)}
    ready = {name for name, state in states.items() if state == "ready"}
    assert ready >= {"local_sound", "plugformer_self_check.hooks"}
    causes = {
        "local_leaves": "hooks 'local_leaves' (local): importing local_leaves failed: SystemExit: 3",
        "local_lost": "hooks 'local_lost' (local): importing local_lost failed: ModuleNotFoundError",
        "local_misspelt": "local_misspelt implements a hook, or an argument of one, that does not exist",
    }
    assert states.keys() - ready == causes.keys()
    for name, cause in causes.items():
        assert states[name].startswith(f"broken: {cause}")


def test_every_state_has_a_color():
    assert set(listing._COLORS) == set(State)
