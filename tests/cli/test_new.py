"""What `plugformer new` writes works as it stands, for each kind of component and the commonest tasks.

The tests of plugins that it writes are run by `.ci/plugins`, which installs them.
"""

import json
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import plugformer
from plugformer_cli.new import KINDS, TYPES


def test_a_plugin_of_each_kind_is_formatted_and_linted_and_nothing_of_the_template_is_left(run, tmp_path):
    for name in ("wide", "plugformer-attention-of-a-very-long-name"):
        for kind in KINDS:
            folder = tmp_path / name / kind
            assert run("new", "plugin", name, "--kind", kind, "--out", str(folder)).status == 0
            files = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
            package = name.replace("-", "_")
            assert {f"{package}/{kind}.py", f"{package}/py.typed"} < {
                path.relative_to(folder).as_posix() for path in files
            }
            left = r"NEW_|new[-_](plugin|component|kind|task)|NewComponent|\r"
            assert not re.search(left, "\n".join(files.values()))
    for command in (["format", "--check"], ["check"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--no-cache", str(tmp_path)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_command_is_called_like_its_distribution(run, tmp_path, trained, monkeypatch):
    written = run("new", "plugin", "plugformer-count", "--kind", "command")
    assert written.out.partition("Next:\n")[2].splitlines() == [
        "  pip install -e './plugformer-count[test]'",
        "  plugformer count --help",
        "  pytest plugformer-count",
    ]
    monkeypatch.syspath_prepend(tmp_path / "plugformer-count")
    manifest = "plugformer-count/plugformer_count/registry.yaml"
    counted = run("--registry", manifest, "count", str(trained.directory), "--json")
    model = plugformer.load(trained.directory).model
    assert sum(json.loads(counted.out).values()) == sum(each.numel() for each in model.parameters())


def test_names_are_derived_from_the_distribution(run, tmp_path):
    assert run("new", "plugin", "My.Fast_Norm", "--kind", "norm").status == 0
    folder = tmp_path / "My.Fast_Norm"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "my-fast-norm"
    assert project["entry-points"]["plugformer"] == {"my-fast-norm": "my_fast_norm"}
    manifest = yaml.safe_load((folder / "my_fast_norm" / "registry.yaml").read_text())
    assert manifest["components"]["norm"]["my_fast_norm"] == "my_fast_norm.norm:MyFastNormComponent"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plugin", "mine"], "no --kind given\n  known: task_type, architecture, tokenizer, position"),
        (["plugin", "mine", "--kind", "atention"], "'atention' (did you mean 'attention'?)\n  known:"),
        (["plugin", "a/b", "--kind", "norm"], "'a/b' cannot be the name of a distribution"),
        (["plugin", "3d", "--kind", "norm"], "'3d' cannot be the name of a distribution"),
        (["plugin", "plugformer-gqa", "--kind", "attention"], "attention/gqa or a package"),
        (["plugin", "torch", "--kind", "norm"], "a package 'torch' is installed already"),
        (["task", "mine"], "no --type given\n  known: classification, language-modelling, "),
        (["task", "mine", "--type", "clasification"], "(did you mean 'classification'?)\n  known: "),
    ],
)
def test_what_cannot_be_written(run, tmp_path, arguments, message):
    outcome = run("new", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["plugin", "mine", "--kind", "norm"], ["task", "mine", "--type", "tagging"]]
)
def test_nothing_is_overwritten(run, tmp_path, arguments):
    (tmp_path / "mine").mkdir()
    outcome = run("new", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert "mine exists already" in outcome.err
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("task_type", TYPES)
def test_a_task_trains_as_it_stands(run, tmp_path, monkeypatch, task_type):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    written = run("new", "task", "mine", "--type", task_type, "--out", "tasks/mine")
    assert written.out.endswith("  plugformer train tasks/mine/task.yaml\n")
    text = (tmp_path / "tasks/mine/task.yaml").read_text()
    assert "NEW_" not in text
    first = text.splitlines()[0]
    assert first == "# plugformer train tasks/mine/task.yaml"
    outcome = run(*first.split()[2:], "--set", "training.steps=2", "--out", "run")
    assert outcome.status == 0, outcome.err
    assert yaml.safe_load(text)["evaluation"]["metrics"][0] in outcome.out
