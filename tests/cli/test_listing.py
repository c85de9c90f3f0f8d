"""`plugformer list`: a table for people, records for scripts."""

import json

import pytest

from plugformer.registry import catalog
from plugformer_cli import printing

CONFLICT = """
components:
  attention:
    gqa: local_part:Other
    mine: local_part:Mine
"""
LONG = "A summary that is a good deal longer than what is left of a line on a terminal of eighty columns."


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard output look like a terminal of 80 columns."""
    monkeypatch.setattr(printing, "terminal_width", lambda: 80)


def test_json_is_an_array_of_exactly_these_keys(run):
    outcome = run("list", "attention", "--json")
    records = json.loads(outcome.out)
    assert [record["name"] for record in records] == ["gqa", "mha", "mla", "mqa"]
    assert records[0] == {
        "kind": "attention",
        "name": "gqa",
        "distribution": "plugformer",
        "version": "0.1.0",
        "state": "ready",
        "summary": "Grouped-query attention; groups of query heads share one key-value head.",
        "source": "https://arxiv.org/abs/2305.13245",
    }


def test_a_pipe_gets_one_unbroken_line_for_each_entry(run, manifest):
    file = manifest(CONFLICT, local_part=f'class Mine:\n    """{LONG}\n\n    And more."""\n')
    lines = run("list", "attention", "--registry", str(file)).out.splitlines()
    assert lines[0].split() == ["kind", "name", "distribution", "version", "state", "summary"]
    mine = next(line for line in lines if " mine " in line)
    assert mine.endswith(LONG)
    assert len({line.index(" ready ") for line in lines if " ready " in line}) == 1


def test_a_quarantined_plugin_shows_its_cause(run, manifest):
    file = str(manifest("plugformer: '>=99'\n" + CONFLICT))
    cause = "needs plugformer >=99; installed is 0.1.0"
    assert run("list", "--registry", file).out.endswith(f"\nlocal is quarantined:\n  {cause}\n")
    [record] = json.loads(run("list", "plugin", "--registry", file, "--json").out)
    assert record["state"] == f"quarantined: {cause}"


def test_a_conflict_shows_both_owners_and_what_to_write(run, manifest, terminal):
    out = run("list", "attention", "--registry", str(manifest(CONFLICT))).out
    assert "plugformer 0.1.0, local offer the same name; write plugformer:gqa" in out
    assert "write local:gqa" in out


def test_available_is_what_the_index_has_and_nobody_installed(run, monkeypatch):
    part = {"summary": "A part.", "source": "", "effect": None}
    sound, broken = ({"passed": 9, "failed": failed, "skipped": 0, "xfailed": 0} for failed in (0, 2))
    parts = [
        {**part, "kind": "norm", "name": "tried", "checks": {"oldest": broken, "main": sound}},
        {**part, "kind": "norm", "name": "broken", "checks": {"newest": broken}},
        {**part, "kind": "head", "name": "new", "checks": {}},
    ]
    row = {"name": "plug-x", "version": "2.0", "install": "plug-x>=2", "stage": "stable", "parts": parts}
    monkeypatch.setattr(catalog, "read_index", lambda: json.loads(json.dumps([row])))
    lines = [line.split() for line in run("list", "--available").out.splitlines()]
    assert lines[:4] == [
        ["kind", "name", "distribution", "stage", "checks", "summary"],
        ["norm", "broken", "plug-x", "stable", "2", "failed", "A", "part."],
        ["norm", "tried", "plug-x", "stable", "9", "passed", "A", "part."],
        ["head", "new", "plug-x", "stable", "not", "run", "A", "part."],
    ]
    assert lines[-1] == ["plug-x", "2.0:", "pip", "install", "plug-x>=2"]
    assert json.loads(run("list", "head", "--available", "--json").out) == [{**row, "parts": parts[2:]}]
    assert "plug-x" not in run("list", "position", "--available").out


PLUGIN = """
components: {norm: {one: {class: "local_norms:One"}, two: {class: "local_norms:Two"}}}
tasks: {sums: "local_norms:sums.yaml"}
"""


def test_info_shows_what_a_task_type_or_a_head_goes_with(run):
    lines = run("info", "task_type/tagging").out.splitlines()
    assert "columns       words (words input), tags (tags output along words)" in lines
    assert "levels        token" in lines
    assert "heads         token_classifier" in lines
    pairs = json.loads(run("info", "task_type/sequence-to-sequence", "--json").out)
    assert pairs["columns"][-1] == "references (texts output optional)"
    assert {"decoder-only", "encoder-decoder"} <= {*pairs["architectures"]}
    assert "bleu" in pairs["metrics"]
    lines = run("info", "head/regressor").out.splitlines()
    assert {"levels        sequence", "answers       number", "task types    regression"} <= {*lines}
    assert "levels" not in json.loads(run("info", "norm/rms_norm", "--json").out)


def test_info_shows_the_contract_of_a_kind_without_what_torch_adds(run):
    for what in ("head", "head/classifier"):
        lines = run("info", what, "--contract").out.splitlines()
        assert lines[0] == 'Hidden = Float[Tensor, "batch length width"]'
        assert any(
            line.startswith("    def logits(self, hidden: Hidden, context: HeadInput)") for line in lines
        )
        assert any(line.startswith("  padding_does_not_count: Values at padding") for line in lines)
        assert "version 1; supported: 1" in lines
        assert not any("_measured" in line or "state_dict" in line for line in lines)
    record = json.loads(run("info", "HeadInput", "--contract", "--json").out)
    assert "def weighted(" in record["interface"]
    assert record["checks"] == {}
    assert "of 'heed' (did you mean 'head'?)" in run("info", "heed", "--contract").err


def test_info_shows_what_a_plugin_offers(run, manifest):
    file = str(manifest(PLUGIN))
    names = [line.split()[:2] for line in run("info", "local", "--registry", file).out.splitlines()]
    assert names == [
        ["kind", "name"],
        ["plugin", "local"],
        ["norm", "one"],
        ["norm", "two"],
        ["task", "sums"],
    ]
    records = json.loads(run("info", "local", "--json", "--registry", file).out)
    assert [record["name"] for record in records] == ["local", "one", "two", "sums"]
    assert "unknown task 'loacl'" in run("info", "loacl", "--registry", file).err
    assert "local is not a task" in run("info", "local", "--set", "a=1", "--registry", file).err


def test_info_takes_a_task_as_lists_write_it_and_refuses_a_command(run):
    assert run("info", "task/dates").out == run("info", "dates").out
    outcome = run("info", "command/train")
    assert (outcome.status, "is no component" in outcome.err) == (2, True)
