"""The index of plugins: everything in the repository is in it, with what studies and manifests say."""

import importlib
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from plugformer.registry import EntryKind, Registry

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    project["name"]: file.parent
    for file in ROOT.glob("*/*/pyproject.toml")
    if "plugformer" in (project := tomllib.loads(file.read_text())["project"]).get("entry-points", {})
}
"""The folders of the plugins in the repository, by their distributions."""

RESULT = {"passed": 3, "failed": 0, "skipped": 1, "xfailed": 0}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("generators.plugins")


@pytest.fixture
def script(tables: ModuleType) -> ModuleType:
    return importlib.import_module("index_plugins")


def part(checks: dict[str, Any]) -> dict[str, Any]:
    facts = {"kind": "norm", "name": "mine", "summary": "A norm.", "source": ""}
    return {**facts, "checks": checks, "effect": None}


def index(*parts: dict[str, Any]) -> dict[str, Any]:
    facts = dict.fromkeys(("version", "requires", "install", "stage", "maintainer", "homepage"), "")
    tried = dict.fromkeys(("plugformer", "version", "python", "torch", "date"), "")
    releases = dict.fromkeys(parts[0]["checks"], tried)
    return {"format": 1, "plugins": [{"name": "mine", **facts, "tried": releases, "parts": [*parts]}]}


def test_every_distribution_of_the_repository_is_listed() -> None:
    listed = yaml.safe_load((ROOT / "docs" / "plugins.yaml").read_text())["plugins"]
    folders = {name: f"./{folder.relative_to(ROOT)}" for name, folder in PROJECTS.items()}
    assert {name: listed.get(name, {}).get("install") for name in folders} == folders


@pytest.mark.parametrize("name", PROJECTS)
def test_a_row_has_what_the_manifest_names(
    name: str, tables: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    monkeypatch.syspath_prepend(PROJECTS[name])
    (manifest,) = PROJECTS[name].glob("*/registry.yaml")
    (row,) = (row for row in tables.read(ROOT)["plugins"] if row["name"] == name)
    offered = Registry.discover(manifest).offered_by("local")
    assert [(part["kind"], part["name"], part["summary"], part["source"]) for part in row["parts"]] == [
        (entry.kind, entry.name, entry.summary, entry.source)
        for entry in offered
        if entry.kind is not EntryKind.PLUGIN
    ]


def test_effects_are_those_of_the_studies(script: ModuleType, tables: ModuleType) -> None:
    listed = yaml.safe_load((ROOT / "docs" / "plugins.yaml").read_text())
    found = [effect for study in listed["studies"] for effect in script.effects(ROOT / "docs", study)]
    expected = {(name, part): effect for name, part, _, effect in found}
    rows = {
        (row["name"], f"{part['kind']}/{part['name']}"): {**part["effect"], "same_code": True}
        for row in tables.read(ROOT)["plugins"]
        for part in row["parts"]
        if part["effect"]
    }
    assert rows == expected


def test_checks_that_fail_are_marked_and_stay(tables: ModuleType) -> None:
    failing = index(part({"main": {**RESULT, "failed": 2}}), part({"main": RESULT}))
    assert "**1 of 2 parts fail**" in tables.distribution_tables(failing)
    assert "| `mine`: A norm. | mine | **2 failed**, 3 passed, 1 skipped |" in tables.part_tables(failing)
    both = index(part({"oldest": {**RESULT, "failed": 1}, "main": RESULT}))
    assert "| oldest: **1 failed**, 3 passed, 1 skipped; main: 3 passed, 1 skipped |" in tables.part_tables(
        both
    )


def test_the_script_counts_how_checks_end(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = "".join(
        f'<testcase classname="norm.mine" name="{number}">{how}</testcase>'
        for number, how in enumerate(
            ["", "<failure/>", '<skipped type="pytest.xfail"/>', '<skipped type="pytest.skip"/>', "<error/>"]
        )
    )

    def checks(command: list[str], **_: Any) -> None:
        Path(command[-1]).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")

    monkeypatch.setattr(script.subprocess, "run", checks)
    assert script.run_checks("mine") == {"norm/mine": {"passed": 1, "failed": 2, "skipped": 1, "xfailed": 1}}
