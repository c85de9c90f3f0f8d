"""A hundred plugins, some of them broken: none is imported before it is used, every fault names its owner."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.errors import RegistryError
from plugformer.interfaces import ModelContext
from plugformer.registry import Registry
from plugformer_cli.main import main

MODEL = ModelContext(width=8, heads=2, ffn_width=8)
_SPEC = importlib.util.spec_from_file_location(
    "many_plugins", Path(__file__).parents[2] / "benchmarks" / "many_plugins.py"
)
many = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(many)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    many.install_plugins(folder)
    return folder


@pytest.fixture
def plugformer(site, monkeypatch):
    """Runs `plugformer` in a process that has the plugins; returns what it prints, and what was imported."""

    monkeypatch.delenv("PLUGFORMER_PLUGINS", raising=False)

    def run(*arguments):
        for mark in site.glob("*/imported"):
            mark.unlink()
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "plugformer", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, {mark.parent.name for mark in site.glob("*/imported")}

    return run


@pytest.fixture
def here(site, monkeypatch, tmp_path):
    """This process has the plugins."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.delenv("PLUGFORMER_PLUGINS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0].startswith("plugin_"):
            del sys.modules[name]


def states(listing):
    """Returns the states that a listing shows for each distribution."""
    shown = {}
    for record in json.loads(listing):
        shown.setdefault(record["distribution"], []).append(record["state"])
    return shown


def test_the_list_imports_none_and_shows_what_manifests_show(plugformer):
    listing, imported = plugformer("list", "--json")
    assert imported == set()
    shown = states(listing)
    assert len(shown) == 101
    for fault, cause in many.SHOWN.items():
        assert any(cause in state for state in shown[f"plugin-{fault}"]), fault
    sound = {owner for owner, (state, *_) in shown.items() if state == "ready"}
    assert len(sound) == 101 - len(many.SHOWN) - 1  # the other owner of the name in conflict


@pytest.mark.parametrize("fault", sorted({*many.SHOWN, *many.TRIED}))
def test_using_a_broken_one_names_its_distribution(here, fault):
    name = "norm-00" if fault == "name-conflict" else f"norm-{fault}"
    with pytest.raises(RegistryError, match=f"plugin-{fault} 1.0"):
        Registry.discover().create("norm", name, MODEL)


@pytest.mark.parametrize("fault", sorted(many.TRIED))
def test_checking_a_broken_one_shows_its_fault(here, capsys, fault):
    with pytest.raises(SystemExit, match="1"):
        main(["check", f"plugin-{fault}"])
    out = capsys.readouterr().out
    assert f"(plugin-{fault} 1.0)" in out
    assert many.TRIED[fault] in out


@pytest.mark.parametrize("fault", ["missing-manifest", "invalid-yaml", "unknown-kind", "wrong-version"])
def test_checking_a_quarantined_one_shows_why(here, capsys, fault):
    with pytest.raises(SystemExit, match="1"):
        main(["check", f"plugin-{fault}"])
    assert "the plugin cannot be used: " in capsys.readouterr().out


def test_a_task_that_uses_a_broken_one_says_where(here, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["validate", "dates", "--set", "model.norm=norm-wrong-base"])
    error = capsys.readouterr().err
    assert error.startswith("--set model.norm=norm-wrong-base  ")
    assert "(plugin-wrong-base 1.0)" in error


def test_bundled_tasks_and_sound_plugins_go_on(here, site, capsys):
    for mark in site.glob("*/imported"):
        mark.unlink()
    for settings in ([], ["--set", "model.norm=norm-01"]):
        with pytest.raises(SystemExit) as end:
            main(["validate", "dates", *settings])
        assert not end.value.code
        assert capsys.readouterr().out.startswith("OK  ")
    assert {mark.parent.name for mark in site.glob("*/imported")} == {"plugin_01"}


def test_training_a_bundled_task_imports_none(here, site, tmp_path, capsys):
    for mark in site.glob("*/imported"):
        mark.unlink()
    settings = ("data.size=60", "training.steps=2", "model.width=8", "model.heads=2", "model.ffn_width=8")
    options = [part for setting in settings for part in ("--set", setting)]
    with pytest.raises(SystemExit) as end:
        main(["train", "dates", "--json", "--out", str(tmp_path / "run"), *options])
    assert not end.value.code
    assert json.loads(capsys.readouterr().out)["metrics"].keys() == {"exact_match"}
    assert not list(site.glob("*/imported"))
