"""Writes the index of plugins, `docs/plugins.json`, from `docs/plugins.yaml` and from what is measured.

python docs/index_plugins.py main          checks what is installed, with the Plugformer that is checked out
python docs/index_plugins.py newest NAME   one distribution, with the newest version of Plugformer
python docs/index_plugins.py studies       checks nothing: reads the list and the studies

What is not installed keeps its row. Afterwards `python docs/generate.py` renews the page.
"""

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import torch
import yaml
from generators.plugins import INDEX, RELEASES, Checks, Distribution, Effect, Part, Release, Tried, read

import plugformer
from plugformer.registry import EntryKind, Registry
from plugformer.registry.discovery import discover_installed
from plugformer.registry.source import source_hash

ROOT = Path(__file__).resolve().parents[1]
Results = dict[str, Checks]


def main(what: str, *names: str) -> None:
    """Checks distributions that are installed, all or those with these names, and writes the index."""
    if what not in (*RELEASES, "studies"):
        raise SystemExit(f"unknown: {what!r}, expected {', '.join(RELEASES)} or studies")
    listed = yaml.safe_load((ROOT / "docs" / "plugins.yaml").read_text(encoding="utf-8"))
    before = {plugin["name"]: plugin for plugin in read(ROOT)["plugins"]}
    found = [effect for study in listed["studies"] for effect in effects(ROOT / "docs", study)]
    registry, rows = Registry.discover(), []
    for name, facts in listed["plugins"].items():
        row = before.get(name) or Distribution(
            name=name, version="", requires="", **facts, tried={}, parts=[]
        )
        row.update(facts)
        if registry.offered_by(name):
            row = offered(row, registry)
            if what in RELEASES and (not names or name in names):
                print(f"checking {name}", flush=True)  # noqa: T201 (a script)
                row = checked(row, what)
        rows.append(measured(row, registry, found))
    index = INDEX.validate_python({"format": 1, "plugins": rows})
    text = json.dumps(index, ensure_ascii=False, indent=1) + "\n"
    (ROOT / "docs" / "plugins.json").write_text(text, encoding="utf-8")


def offered(row: Distribution, registry: Registry) -> Distribution:
    """Returns the row of an installed distribution with what it offers."""
    (plugin,) = (plugin for plugin in discover_installed() if plugin.distribution == row["name"])
    known = {(part["kind"], part["name"]): part for part in row["parts"]}
    parts = []
    for entry in registry.offered_by(row["name"]):
        if entry.kind is not EntryKind.PLUGIN:
            part = known.get((str(entry.kind), entry.name))
            facts: Any = {"kind": str(entry.kind), "name": entry.name, "summary": entry.summary}
            facts |= {"source": entry.source, "checks": part["checks"] if part else {}}
            parts.append(Part(**facts, effect=part["effect"] if part else None))
    return {**row, "version": plugin.version, "requires": plugin.requires, "parts": parts}


def checked(row: Distribution, release: Release) -> Distribution:
    """Returns the row of an installed distribution with how its checks end now."""
    results = run_checks(row["name"])
    for part in row["parts"]:
        if found := results.get(f"{part['kind']}/{part['name']}"):
            part["checks"][release] = found
    tried = Tried(
        plugformer=plugformer.__version__,
        version=row["version"],
        python=platform.python_version(),
        torch=torch.__version__,
        date=datetime.now(UTC).date().isoformat(),
    )
    return {**row, "tried": {**row["tried"], release: tried}}


def run_checks(distribution: str) -> Results:
    """Returns how the checks of a distribution end, by `kind/name`: those of `plugformer check`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "checks.xml")
        command = [
            sys.executable,
            "-m",
            "plugformer",
            "check",
            distribution,
            "--",
            "-q",
            "--junitxml",
            str(file),
        ]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 (our own)
        results: Results = {}
        for case in ET.parse(file).iter("testcase"):  # noqa: S314 (pytest has written it)
            path = case.attrib["classname"].replace(".", "/")
            results.setdefault(path, Checks(passed=0, failed=0, skipped=0, xfailed=0))[_ended(case)] += 1
    return results


def _ended(case: ET.Element) -> Any:
    """Returns how a check ended, one of the keys of `Checks`."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def effects(docs: Path, study: str) -> Iterator[tuple[str, str, str, Effect]]:
    """Yields what a study found about a part: distribution, `kind/name`, hash of the source, and the effect.

    Its arms have the names of parts. An arm that no distribution offers, such as a built-in one, is left out.
    """
    report = json.loads((docs / study / "report.json").read_text(encoding="utf-8"))
    for comparison in report["comparisons"]:
        lock = report["made_of"]["components"].get(comparison["arm"])
        if lock is None:
            continue
        kept = ("metric", "higher_is_better", "difference", "low", "high", "level", "verdict", "pairs")
        facts: dict[str, Any] = {name: comparison[name] for name in kept}
        parameters = comparison["parameters"]
        effect = Effect(
            study=study,
            **facts,
            parameters=parameters["arm"] / parameters["baseline"],
            version=lock["version"],
            plugformer=report["made_of"]["versions"]["plugformer"],
            same_code=True,
        )
        yield lock["distribution"], comparison["arm"], lock["source"], effect


def measured(
    row: Distribution, registry: Registry, found: list[tuple[str, str, str, Effect]]
) -> Distribution:
    """Returns a row with the effects of its parts; of several studies the last one counts."""
    effects = {part: (source, effect) for name, part, source, effect in found if name == row["name"]}
    now = {f"{entry.kind}/{entry.name}": entry for entry in registry.offered_by(row["name"])}
    for part in row["parts"]:
        path = f"{part['kind']}/{part['name']}"
        if path in effects:
            source, effect = effects[path]
            before = part["effect"] is None or part["effect"]["same_code"]
            same = source_hash(now[path]) == source if path in now else before
            part["effect"] = {**effect, "same_code": same}
    return row


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["main"]))
