"""The last contract result in `plugformer list`: short, stale after an edit, and found without importing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.commands import listing, printing

PART = """
from plugformer.interfaces import Schedule

class Sound(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0

class Faulty(Schedule):
    def factor(self, step, *, steps, width):
        return (step - 1) / steps
"""
MANIFEST = """
components:
  schedule:
    faulty: {class: "local_package.part:Faulty", summary: Starts late.}
    lost: {class: "local_package.lost:Lost"}
    sound: {class: "local_package.part:Sound"}
    unchecked: {class: "local_package.part:Sound"}
"""


@pytest.fixture
def local(manifest, tmp_path, run):
    """A local manifest with a package, all of whose components but one have been checked."""
    package = tmp_path / "local_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text(PART)
    file = str(manifest(MANIFEST))
    for name in ("faulty", "lost", "sound"):
        run("check", f"schedule/{name}", "--registry", file)
    return file


@pytest.fixture
def contracts(run, local):
    """Returns what a listing in JSON says of the contract of each local component, and of a task."""

    def contracts():
        records = json.loads(run("list", "--json", "--registry", local).out)
        return {
            record["name"]: record["contract"]
            for record in records
            if record["distribution"] == "local" or record["name"] == "dates"
        }

    return contracts


def saved(tmp_path, name):
    return tmp_path / f"cache/plugformer/checks/local/schedule/{name}.json"


def column(out):
    lines = out.splitlines()
    begin, end = (lines[0].index(name) for name in ("contract", "summary"))
    return {line.split()[1]: line[begin:end].strip() for line in lines[1:] if " local " in line}


def test_a_pipe_has_a_column(run, local, tmp_path):
    listed = ("list", "schedule", "--registry", local)
    assert column(run(*listed).out) == {
        "faulty": "1 failed",
        "lost": "1 failed",
        "sound": "4 of 4",
        "unchecked": "",
    }
    with (tmp_path / "local_package/part.py").open("a") as file:
        file.write("# changed\n")
    assert column(run(*listed).out) == {
        "faulty": "stale",
        "lost": "stale",
        "sound": "stale",
        "unchecked": "",
    }


def test_a_terminal_has_a_column_where_something_was_checked(run, local, monkeypatch):
    for module in (printing, listing):
        monkeypatch.setattr(module, "terminal_width", lambda: 80)
    lines = run("list", "schedule", "--registry", local).out.splitlines()
    assert next(line for line in lines if " faulty " in line).endswith(
        " local             ready  1 failed  Starts late."
    )
    (mha,) = (line for line in run("list", "attention").out.splitlines() if " mha " in line)
    assert " ready  Multi-head" in mha


def test_json_has_the_result(contracts, tmp_path):
    known = contracts()
    assert known["sound"].pop("day") == json.loads(saved(tmp_path, "sound").read_text())["day"]
    assert known["sound"] == {
        "summary": "4 of 4 checks passed",
        "passed": True,
        "stale": False,
        "plugformer": "0.1.0",
        "options": "",
    }
    assert known["faulty"]["passed"] is False
    assert known["unchecked"] is known["dates"] is None
    (tmp_path / "local_package/lost.py").write_text("Lost = 1\n")
    assert contracts()["lost"]["stale"] is True


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"summary": 1}', "\0", '{"counts": []}'], ids=repr)
def test_a_damaged_result_is_none(contracts, tmp_path, text):
    saved(tmp_path, "sound").write_text(text)
    known = contracts()
    assert known["sound"] is None
    assert known["faulty"]["summary"] == "3 of 4 checks passed, 1 failed"


def test_code_that_cannot_be_parsed_is_only_stale(contracts, tmp_path):
    (tmp_path / "local_package/part.py").write_text("from local_package import (\n")
    assert contracts()["sound"]["stale"] is True


@pytest.mark.parametrize(("arguments", "shown"), [([], "stale"), (["--json"], "4 of 4")])
def test_nothing_is_imported(local, arguments, shown):
    Path(local).with_name("local_package").joinpath("__init__.py").write_text("raise SystemExit('imported')")
    code = (
        "import sys; from plugformer.commands.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "list", "--registry", local, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown in done.stdout
    assert not {name.partition(".")[0] for name in done.stderr.split()} & {
        "local_package",
        "plugformer_plugins",
        "pydantic",
        "torch",
    }
