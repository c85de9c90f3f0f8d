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
from plugformer.registry import EntryKind, Kind, Registry
from plugformer_scaffolding import plugin_files, write
from plugformer_scaffolding.command import KINDS as CHOICES

KINDS = list(Kind)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Writes a plugin of a kind and makes it importable; returns the registry that knows it."""

    def write_plugin(kind: Kind, name: str = "plugformer-mine") -> Registry:
        names, texts = plugin_files(name, kind)
        write(tmp_path / name, texts)
        monkeypatch.syspath_prepend(tmp_path / name)
        monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
        return Registry.discover(tmp_path / name / names["new_plugin"] / "registry.yaml")

    return write_plugin


@pytest.mark.parametrize("kind", CHOICES)
def test_nothing_of_a_stencil_is_left_in_a_plugin(run, tmp_path, kind):
    assert run("new", "plugin", "plugformer-mine", "--kind", kind, "--out", "one").status == 0
    files = {path: path.read_text() for path in (tmp_path / "one").rglob("*") if path.is_file()}
    names = {str(path.relative_to(tmp_path / "one")) for path in files}
    assert {"pyproject.toml", "README.md", f"plugformer_mine/{kind}.py", "plugformer_mine/py.typed"} < names
    text = "\n".join(files.values())
    assert not re.search(r"NEW_|new[-_](plugin|component|kind|task)|NewComponent|\r", text)


def test_a_plugin_is_formatted_and_linted(tmp_path):
    for name in ("norm", "plugformer-attention-of-a-very-long-name"):
        for kind in (*KINDS, EntryKind.COMMAND):
            write(tmp_path / name / kind, plugin_files(name, kind)[1])
    for command in (["format", "--check"], ["check"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--no-cache", str(tmp_path)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_command_is_called_like_its_distribution(run, plugin, tmp_path, trained):
    written = run("new", "plugin", "plugformer-count", "--kind", "command")
    assert written.out.partition("Next:\n")[2].splitlines() == [
        "  pip install -e './plugformer-count[test]'",
        "  plugformer count --help",
        "  pytest plugformer-count",
    ]
    plugin(EntryKind.COMMAND)
    manifest = "plugformer-mine/plugformer_mine/registry.yaml"
    counted = run("--registry", manifest, "mine", str(trained.directory), "--json")
    model = plugformer.load(trained.directory).model
    assert sum(json.loads(counted.out).values()) == sum(each.numel() for each in model.parameters())


def test_names_are_derived_from_the_distribution(run, tmp_path):
    assert run("new", "plugin", "My.Fast_Norm", "--kind", "norm").status == 0
    folder = tmp_path / "My.Fast_Norm"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "my-fast-norm"
    assert project["entry-points"]["plugformer"] == {"my-fast-norm": "my_fast_norm"}
    manifest = yaml.safe_load((folder / "my_fast_norm" / "registry.yaml").read_text())
    assert manifest["components"]["norm"]["my_fast_norm"]["class"] == "my_fast_norm.norm:MyFastNormComponent"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine"], "no --kind given\n  known: task_type, architecture, tokenizer, position"),
        (
            ["mine", "--kind", "atention"],
            "'atention' (did you mean 'attention'?)\n  known:",
        ),
        (["a/b", "--kind", "norm"], "'a/b' is not the name of a distribution"),
        (["größe", "--kind", "norm"], "'größe' is not the name of a distribution"),
        (["3d", "--kind", "norm"], "'3d' cannot be a name in Python"),
        (["class", "--kind", "norm"], "'class' cannot be a name in Python"),
        (["plugformer-gqa", "--kind", "attention"], "attention/gqa is installed already"),
        (["plugformer-plot", "--kind", "command"], "command/plot is installed already"),
        (["json", "--kind", "norm"], "choose another name, such as plugformer-json-norm"),
        (["torch", "--kind", "norm"], "a package 'torch' is installed already"),
    ],
)
def test_a_plugin_that_cannot_be(run, tmp_path, arguments, message):
    outcome = run("new", "plugin", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a/b", "--type", "tagging"], "'a/b' is not the name of a task"),
        (["mine"], "no --type given\n  known: classification, language-modelling, "),
        (
            ["mine", "--type", "clasification"],
            "unknown task_type 'clasification' (did you mean 'classification'?)\n  known: classification, ",
        ),
        (["mine", "--type", "{inputs: [a]}"], "--type '{inputs: [a]}': expected a name, or {name: NAME, "),
        (["mine", "--type", "{name: tagging"], "--type '{name: tagging'"),
        (["mine", "--type", "{name: tagging, inputs: [a]}"], "unknown key 'inputs'"),
        (
            ["mine", "--type", "{name: regression, inputs: [a, b, c]}"],
            "there are no examples for a regression task, whose columns are a (text, input), b (text, "
            "input), c (text, input), number (number, output)\n",
        ),
    ],
)
def test_a_task_that_cannot_be(run, tmp_path, arguments, message):
    outcome = run("new", "task", *arguments)
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


SEVERAL = "{name: %s, inputs: [title, hypothesis]}"
METRICS = {
    "classification": "accuracy",
    SEVERAL % "classification": "accuracy",
    "language-modelling": "perplexity",
    "masked-language-modelling": "perplexity",
    "multi-label": "micro_f1",
    "regression": "mean_squared_error",
    "sequence-to-sequence": "exact_match",
    "tagging": "tag_accuracy",
}
"""What a new task of each type, or of a type with options, is measured by."""


@pytest.mark.parametrize("task_type", METRICS)
def test_a_task_trains_as_it_stands(run, tmp_path, monkeypatch, task_type):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    written = run("new", "task", "mine", "--type", task_type, "--out", "tasks/mine")
    assert written.out.endswith("  plugformer train tasks/mine/task.yaml\n")
    file = tmp_path / "tasks/mine/task.yaml"
    assert "NEW_" not in file.read_text()
    first = file.read_text().splitlines()[0]
    assert first == "# plugformer train tasks/mine/task.yaml"
    checked = run("validate", "tasks/mine/task.yaml")
    assert (checked.status, checked.err) == (0, "")
    outcome = run(*first.split()[2:], "--set", "training.steps=2", "--out", "run")
    assert outcome.status == 0, outcome.err
    assert METRICS[task_type] in outcome.out


TYPES = """
from plugformer.interfaces import OutputType, Column, Level, TaskType

class Notes(TaskType):
    level, output_type = Level.SEQUENCE, OutputType.LABEL
    columns = (Column("note", "text", "input", tokenizer="source"), Column("kind", "label", "output"))

    def encode(self, examples, tokenizers):
        raise NotImplementedError

class Spans(Notes):
    columns = (*Notes.columns, Column("first", "number", "output"), Column("last", "number", "output"))
"""


def test_a_type_of_a_plugin_gets_what_fits_its_columns(run, manifest, tmp_path):
    file = manifest(
        "components: {task_type: {notes: {class: 'local_types:Notes'}, spans: {class: 'local_types:Spans'}}}",
        local_types=TYPES,
    )
    outcome = run("new", "task", "mine", "--type", "notes", "--registry", str(file))
    assert outcome.status == 0, outcome.err
    assert outcome.out.endswith(f"  plugformer train mine/task.yaml --registry {file.name}\n")
    task = yaml.safe_load((tmp_path / "mine/task.yaml").read_text())
    assert task["data"]["columns"] == {"note": "text", "kind": "label"}
    assert run("validate", "mine/task.yaml", "--registry", str(file)).status == 0

    outcome = run("new", "task", "other", "--type", "spans", "--registry", str(file))
    assert (outcome.status, outcome.out) == (2, "")
    assert "there are no examples for a spans task, whose columns are note (text, input)," in outcome.err
