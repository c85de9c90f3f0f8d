"""`plugformer list --load`: whatever a plugin does when it is imported is told, and ends nothing else."""

import json

import pytest

from plugformer.commands import listing
from plugformer.registry import EntryState

NORM = """
from plugformer.interfaces import Norm

class Part(Norm):
    def __init__(self, model):
        super().__init__()

    def forward(self, x):
        return x
"""


@pytest.fixture
def load(manifest, run):
    """Lists norms of one local module each, after trying them; returns their states by name."""

    def load(**parts):
        entries = "".join(f'    {name}: {{class: "local_{name}:Part"}}\n' for name in parts)
        file = manifest(
            f"components:\n  norm:\n{entries}", **{f"local_{name}": code for name, code in parts.items()}
        )
        listed = run("list", "norm", "--load", "--json", "--registry", str(file))
        assert listed.err == ""
        records = json.loads(listed.out)
        assert {record["state"] for record in records if record["distribution"] == "plugformer"} == {"ready"}
        return {record["name"]: record["state"] for record in records if record["distribution"] == "local"}

    return load


def test_what_cannot_be_imported_is_broken(load):
    states = load(
        noisy="print('noise'); import sys; sys.stderr.write('noise')" + NORM,
        faulty="1 / 0",
        leaving="raise SystemExit(3)",
        other="class Part: pass",
    )
    assert states.pop("noisy") == "ready"
    assert {name: state.split("\n")[0] for name, state in states.items()} == {
        "faulty": "broken: norm 'faulty' (local): importing local_faulty failed: "
        "ZeroDivisionError: division by zero",
        "leaving": "broken: norm 'leaving' (local): importing local_leaving failed: SystemExit: 3",
        "other": "broken: norm 'other' (local): local_other:Part is not a Norm",
    }


def test_a_plugin_that_ends_its_process_is_broken_and_ends_nothing_else(load):
    ended = "broken: importing local ended its process with status 7"
    assert load(one=NORM, other="import os; os._exit(7)") == {"one": ended, "other": ended}


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
    assert set(listing._COLORS) == set(EntryState)
