"""What `plugformer new` writes works as it stands, for each kind of component and the commonest tasks.

The tests of plugins that it writes are run by `.ci/plugins`, which installs them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import copier
import pytest
import yaml

import plugformer
from plugformer.registry import CONTRACTS
from plugformer.registry.manifest import parse
from plugformer_cli.new import KINDS, TYPES

ROOT = Path(__file__).resolve().parents[2]
GIT = shutil.which("git")


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
            assert not re.search(r"new_component|NewComponent|\{\{|\{%|\r", "\n".join(files.values()))
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
    assert manifest["contracts"] == {"norm": CONTRACTS["norm"].version}
    assert manifest["components"]["norm"]["my_fast_norm"] == "my_fast_norm.norm:MyFastNormComponent"


@pytest.mark.parametrize("kind", ["feed_forward", "command"])
def test_a_name_may_say_the_kind(run, tmp_path, kind):
    name = f"plugformer-{kind.replace('_', '-')}-mine"
    assert run("new", "plugin", name).status == 0
    manifest = parse((tmp_path / name / name.replace("-", "_") / "registry.yaml").read_bytes(), "")
    assert [(entry.kind, entry.name) for entry in manifest.entries] == [(kind, "mine")]
    assert not manifest.problems


@pytest.fixture
def template(tmp_path, monkeypatch):
    """A repository with the template, where those who wrote a plugin with it look for later versions."""
    repository, templates = tmp_path / "repository", "plugins/plugformer_cli/templates"
    unused = shutil.ignore_patterns("__pycache__", ".ruff_cache")
    shutil.copytree(ROOT / templates, repository / templates, ignore=unused)
    shutil.copy(ROOT / "copier.yml", repository)
    settings = (
        "user.name=A",
        "user.email=a@b",
        f"url.{repository}.insteadOf=https://github.com/plugformer/plugformer.git",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, setting in enumerate(settings):
        key, _, value = setting.partition("=")
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return repository


def test_its_workflow_calls_ours_with_the_oldest_version_that_it_depends_on(run, tmp_path):
    assert run("new", "plugin", "plugformer-norm-mine").status == 0
    folder = tmp_path / "plugformer-norm-mine"
    job = yaml.safe_load((folder / ".github/workflows/plugin.yml").read_text())["jobs"]["check"]
    called, _, tag = job["uses"].removeprefix("plugformer/plugformer/").partition("@")
    assert tag == f"v{plugformer.__version__}"
    inputs = yaml.safe_load((ROOT / called).read_text())[True]["workflow_call"]["inputs"]  # `on` is true
    assert job["with"].keys() == {name for name, value in inputs.items() if value.get("required")}
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == [f"plugformer>={job['with']['oldest']}"]


def commit(folder, *tags):
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A"], *(["tag", tag] for tag in tags)):
        subprocess.run([GIT, *arguments], cwd=folder, check=True)


def contents(folder):
    """Returns the files of a plugin but for what copier notes about their origin."""
    files = {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return {path: text for path, text in files.items() if path.name != ".copier-answers.yml"}


@pytest.mark.parametrize("kind", ["feed_forward", "metric", "command"])
def test_copier_writes_the_same(run, tmp_path, template, kind):
    assert run("new", "plugin", "plugformer-mine", "--kind", kind).status == 0
    answers = {"name": "plugformer-mine", "kind": kind}
    copier.run_copy(str(template), tmp_path / "copied", answers, quiet=True)
    written = contents(tmp_path / "plugformer-mine")
    workflow = Path(".github/workflows/plugin.yml")
    written[workflow] = written[workflow].replace("@v0.1.0", "@main")  # a copy of no version
    assert contents(tmp_path / "copied") == written


def test_copier_brings_later_versions_and_keeps_changes(run, tmp_path, template):
    commit(template, f"v{plugformer.__version__}")
    assert run("new", "plugin", "plugformer-norm-mine").status == 0
    folder = tmp_path / "plugformer-norm-mine"
    code = folder / "plugformer_norm_mine" / "norm.py"
    code.write_text(code.read_text() + "\n# my own line\n")
    commit(folder)
    file = template / "plugins/plugformer_cli/templates/plugin/pyproject.toml.jinja"
    file.write_text(file.read_text().replace("hatchling>=1.27", "hatchling>=9.9"))
    commit(template, "v99.0.0")
    update = [sys.executable, "-m", "copier", "update", "--defaults"]
    done = subprocess.run(update, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hatchling>=9.9" in (folder / "pyproject.toml").read_text()
    assert code.read_text().endswith("# my own line\n")
    assert "plugin.yml@v99.0.0" in (folder / ".github/workflows/plugin.yml").read_text()
    assert "_commit: v99.0.0" in (folder / ".copier-answers.yml").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plugin", "mine"], "no --kind given\n  known: task_type, architecture, tokenizer, position"),
        (["plugin", "mine", "--kind", "atention"], "'atention' (did you mean 'attention'?)\n  known:"),
        (["plugin", "a/b", "--kind", "norm"], "'a/b' cannot be the name of a distribution"),
        (["plugin", "3d", "--kind", "norm"], "'3d' cannot be the name of a distribution"),
        (["plugin", "plugformer-attention-gqa"], "attention/gqa or a package"),
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
