"""A stranger's files: scripts and pickles behind every key of a task, and in place of every file of a run.

Nothing of them is executed, whatever is done with the run. Keys come from the models that validate them, so
that new ones are tried, too.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from plugformer.configuration import options_model, resolve
from plugformer.data.preparation import prepare
from plugformer.errors import PlugformerError
from plugformer.experiment import Experiment
from plugformer.registry import Kind, Registry
from plugformer.runs.loading import load
from plugformer.training.train import resume
from plugformer.validation import validate

NAME = "planted_by_a_stranger"
Keys = tuple[str | int, ...]
Schema = dict[str, Any]

PLACES: dict[Kind, Keys] = {
    Kind.TASK_TYPE: ("type",),
    Kind.DATA: ("data",),
    Kind.TOKENIZER: ("tokenizer",),
    Kind.OPTIMIZER: ("training", "optimizer"),
    Kind.HOOK: ("training", "hooks", 0),
    Kind.METRIC: ("evaluation", "metrics", 0),
}
"""Where a task names a component of each kind that has options of text."""

SPELLINGS = (
    *(NAME, f"./{NAME}.py", f"{{here}}/{NAME}"),
    "pandas",  # which `datasets` 4.0 reads pickles with
)
"""How a planted file may be named."""

SHADOWS = ("torch", "numpy", "random", "multiprocessing", "evaluate", "sitecustomize", "conftest", "__init__")
"""Modules that a process imports whose `sys.path` has the working directory."""


class Planted:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a planted script or pickle leaves; the working directory is a run full of them."""
    mark = tmp_path / "executed"
    for folder in (run_copy, run_copy.parent):
        plant(folder, mark)
    monkeypatch.chdir(run_copy)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("evaluate.loading.HubEvaluationModuleFactory.get_module", offline)
    yield mark
    assert not mark.exists()


def offline(*_: object) -> None:
    raise ConnectionError("no network")


def plant(folder: Path, mark: Path) -> None:
    """Writes scripts, manifests and pickles by all names that something might look for."""
    script, content = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n", pickle.dumps(Planted(mark))
    scripts = (NAME, f"{NAME}/{NAME}", f"{NAME}/__init__", f"{NAME}/conftest", f"rouge/{NAME}", *SHADOWS)
    for place in scripts:
        file = folder / f"{place}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script)
    pickles = ("train.pkl", "train.pickle", f"{NAME}/train.pkl", f"{NAME}/{NAME}.pkl", f"{NAME}/a.pth")
    read_by_others = ("chat_template.jinja", "tokenizer_config.json", "config.json", "pytorch_model.bin")
    for place in (*pickles, *read_by_others):
        (folder / place).write_bytes(content)
    manifest = f"components: {{attention: {{mha2: {{class: '{NAME}:A', summary: S.}}}}}}\nhooks: [{NAME}]\n"
    for place in ("registry.yaml", "plugformer.yaml", f"{NAME}/registry.yaml", f"{NAME}/task.yaml"):
        (folder / place).write_text(manifest)


def texts(schema: Schema, definitions: Schema, text: str) -> Iterator[Any]:
    """Yields values that a JSON Schema may allow, with a text in each place for one."""
    if "$ref" in schema:
        yield from texts(definitions[schema["$ref"].rpartition("/")[2]], definitions, text)
    for member in schema.get("anyOf", ()):
        yield from texts(member, definitions, text)
    kind = schema.get("type")
    if kind == "array":
        yield from ([item] for item in texts(schema.get("items", {}), definitions, text))
    elif kind == "object":
        inner = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties", {})][0]
        for item in texts(inner if isinstance(inner, dict) else {}, definitions, text):
            yield from ({key: item} for key in ("train", "source"))
        for key, field in schema.get("properties", {}).items():
            yield from ({key: item} for item in texts(field, definitions, text))
    elif schema.keys().isdisjoint({"enum", "const", "anyOf", "$ref"}) and kind in ("string", None):
        yield text


@cache
def schemas(kind: Kind) -> list[tuple[str, Schema]]:
    """Returns the name of every component of a kind, with the JSON Schema of its options."""
    registry = Registry.discover()
    names = [entry.name for entry in registry.entries(kind)]
    return [(name, options_model(registry.load(kind, name)).model_json_schema()) for name in names]


def blocks(kind: Kind, text: str) -> Iterator[dict[str, Any]]:
    """Yields blocks of every component of a kind, with a text in each option that may be one."""
    for name, schema in schemas(kind):
        definitions, fields = schema.get("$defs", {}), schema["properties"]
        needed = {
            key: next(texts(fields[key], definitions, "rouge"), 1) for key in schema.get("required", ())
        }
        for key, field in fields.items():
            for value in texts(field, definitions, text):
                yield {"name": name, **needed, key: value}


def put(tree: Any, keys: Keys, value: Any) -> Any:
    """Returns a task with a value at a place, and all that leads to it."""
    if not keys:
        return value
    key, *rest = keys
    if isinstance(key, int):
        return [put(tree[0] if isinstance(tree, list) and tree else None, tuple(rest), value)]
    inner = tree if isinstance(tree, dict) else {"name": tree} if isinstance(tree, str) else {}
    return {**inner, key: put(inner.get(key), tuple(rest), value)}


def attempt(action: Callable[[], object]) -> None:
    with suppress(PlugformerError):
        action()


def try_task(run: Path, tree: dict[str, Any], keys: Keys, value: Any) -> None:
    """Validates a run's task with a value at a place, reads its data, and lets the run answer."""
    (run / "task.yaml").write_text(yaml.safe_dump(put(tree, keys, value)))
    attempt(lambda: validate(resolve("task.yaml")))
    if keys[0] in ("data", "tokenizer"):
        attempt(lambda: prepare(Experiment.from_resolved(resolve("task.yaml"))))
    else:
        attempt(lambda: load(run).predict("1/2/2003"))
    if keys[0] == "evaluation":
        attempt(lambda: load(run).evaluate("validation"))


@pytest.mark.long
@pytest.mark.parametrize("kind", PLACES)
def test_options_of_components_name_no_code(kind: Kind, run_copy: Path, mark: Path) -> None:
    tree = yaml.safe_load((run_copy / "task.yaml").read_text())
    for spelling in SPELLINGS:
        for block in blocks(kind, spelling.format(here=run_copy)):
            try_task(run_copy, tree, PLACES[kind], block)
            assert not mark.exists(), block


@pytest.mark.long
@pytest.mark.parametrize("content", ("pickle", "script", "nothing"))
def test_files_of_a_run_are_not_executed(run_copy: Path, mark: Path, content: str) -> None:
    suffixes = (".json", ".safetensors", ".jsonl", ".yaml")
    files = [file for file in run_copy.rglob("*") if file.suffix in suffixes and NAME not in str(file)]
    assert {"task.yaml", "lock.json", "metrics.jsonl", "state.json"} <= {file.name for file in files}
    contents = {"pickle": pickle.dumps(Planted(mark)), "script": Path(f"{NAME}.py").read_bytes()}
    for file in files:
        before = file.read_bytes()
        file.unlink() if content == "nothing" else file.write_bytes(contents[content])
        attempt(lambda: load(run_copy).predict(["1/2/2003"]))
        attempt(lambda: load(run_copy).evaluate("validation"))
        attempt(lambda: resume(run_copy, notify=str))
        assert not mark.exists(), file
        file.write_bytes(before)


def test_the_program_imports_nothing_from_the_working_directory(mark: Path) -> None:
    program = Path(sys.executable).with_name("plugformer")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [program, "predict", ".", "1/2/2003"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
