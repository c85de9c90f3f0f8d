"""Commands that plugins add: shown in the help, loaded when called, addressed by distribution."""

import json
import sys

from plugformer.registry import Registry

PROBE = """
from typing import Annotated
import typer

def command(word: str, times: Annotated[int, typer.Option(min=1)] = 1):
    '''Say a word.

    Several times, if you like.
    '''
    print(" ".join([word] * times))

number = 3
"""
MANIFEST = """
commands:
  probe: "local_probe:command"
  broken: "local_absent:command"
  wrong: "local_probe:number"
"""


def test_the_help_shows_it_without_importing_it(run, manifest):
    file = manifest(MANIFEST, local_probe=PROBE)
    outcome = run("--registry", str(file), "--help")
    heading = outcome.out.index("Commands of plugins:")
    assert "probe   Say a word. (local)" in outcome.out[heading:]
    assert "local_probe" not in sys.modules


def test_it_is_called_with_its_own_arguments(run, manifest):
    file = manifest(MANIFEST, local_probe=PROBE)
    assert run("--registry", str(file), "probe", "so", "--times", "2").out == "so so\n"
    assert run("--registry", str(file), "local:probe", "so").out == "so\n"
    assert run("--registry", str(file), "probe", "so", "--times", "0").status == 2


def test_what_is_wrong_with_it_is_an_error_that_names_it(run, manifest):
    file = str(manifest(MANIFEST, local_probe=PROBE))
    broken, wrong = run("--registry", file, "broken"), run("--registry", file, "wrong")
    assert broken.status == wrong.status == 2
    assert "command 'broken' (local): importing local_absent failed" in broken.err
    assert "command 'wrong' (local): local_probe:number is not a function" in wrong.err


def test_the_built_in_manifest_offers_commands_by_the_same_road(run, manifest):
    entries = {entry.name: entry for entry in Registry.built_in().entries("command")}
    assert "plot" in entries
    listed = json.loads(run("list", "command", "--json").out)
    assert [record["name"] for record in listed] == sorted(entries)
    own = run("--help").out.partition("Commands:")[2].partition("Commands of plugins")[0]
    words = " ".join(own.split())
    assert all(f"{name} {entry.summary}" in words for name, entry in entries.items())
    for name in entries:
        loaded = run("plugformer:" + name, "--help")
        assert (loaded.status, loaded.err) == (0, "")
        assert f"plugformer {name}" in loaded.out.partition("Examples:\n")[2]


def test_no_plugin_takes_the_place_of_a_built_in_one(run, manifest):
    file = manifest('commands: {plot: "local_probe:command"}', local_probe=PROBE)
    assert "Draw learning curves" in run("--registry", str(file), "plot", "--help").out
    assert run("--registry", str(file), "local:plot", "so").out == "so\n"
    states = {
        record["distribution"]: record["state"]
        for record in json.loads(run("--registry", str(file), "list", "command", "--json").out)
        if record["name"] == "plot"
    }
    assert states == {
        "plugformer": "ready",
        "local": "in conflict: plugformer 0.1.0, local offer the same name; write local:plot",
    }


GROUP = """
import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Words.")


@app.command()
def say(word: str):
    print(word)


@app.command()
def leave():
    raise typer.Exit(4)
"""


def test_a_command_may_have_commands_of_its_own(run, manifest):
    file = str(manifest('commands: {words: "local_words:app"}', local_words=GROUP))
    assert run("--registry", file, "words", "say", "so").out == "so\n"
    assert "leave" in run("--registry", file, "words", "--help").out
    assert run("--registry", file, "words", "leave").status == 4


FAILING = """
import sys
import typer

def command(how: str):
    if how == "exit":
        sys.exit(3)
    if how == "refuse":
        raise typer.BadParameter("no")
    {}["missing"]
"""


def test_its_failure_is_told_with_its_name_and_its_own_status_is_kept(run, manifest):
    file = str(manifest('commands: {probe: "local_probe:command"}', local_probe=FAILING))
    failed = run("--registry", file, "probe", "fail")
    assert failed.status == 2
    assert "Error: command 'probe' (local) failed: KeyError: 'missing'\n  raised in " in failed.err
    assert "local_probe.py:10 (command)\n  the traceback is in " in failed.err
    assert run("--registry", file, "probe", "exit").status == 3
    assert run("--registry", file, "probe", "refuse").status == 2
