"""What a task extends, and the local manifests that its files name."""

import re
from pathlib import Path

import pytest

from plugformer.configuration import resolve, short_name
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry import Registry


def test_a_file_extends_a_file_relative_to_itself(write, base, registry) -> None:
    write("inner/middle.yaml", "extends: ../base.yaml\nmodel: {width: 32}\n")
    write("top.yaml", "extends: inner/middle.yaml\nmodel: {heads: 2}\n")
    task = resolve("top.yaml", registry=registry).task
    assert (task.model.width, task.model.heads, task.model.attention.name) == (32, 2, "gqa")


def test_a_registered_task_can_be_extended(write, base, registry, tmp_path, monkeypatch) -> None:
    package = tmp_path / "plug_tasks_of_layers"
    package.mkdir()
    (package / "toy.yaml").write_text(base.read_text())
    manifest = tmp_path / "parts.yaml"
    manifest.write_text("tasks: {toy: 'plug_tasks_of_layers:toy.yaml'}")
    monkeypatch.syspath_prepend(str(tmp_path))
    write("top.yaml", f"registry: {manifest}\nextends: toy\nmodel: {{width: 32}}\n")
    resolved = resolve("top.yaml", registry=registry)
    assert resolved.task.model.width == 32
    assert resolve("toy", registry=resolved.registry).task.model.width == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: absent.yaml", "top.yaml:1:10  extends: there is no file '{folder}/absent.yaml'"),
        ("extends: nonesuch", "top.yaml:1:10  extends: unknown task 'nonesuch'\n  known: "),
        ("extends: inner", "\n  write inner/task.yaml"),
        ("extends: ./inner", "extends: there is no file '{folder}/inner'\n  write inner/task.yaml"),
        ("extends: 3", "top.yaml:1:10  extends: expected the name of a task or a file"),
        ("extends: ./top.yaml", "top.yaml:1:10  extends: {folder}/top.yaml extends itself"),
        (
            "extends: other.yaml",
            "other.yaml:1:10  extends: {folder}/top.yaml extends itself",
        ),
        ("task: dates\nfactors: {}", "top.yaml:1:1  this is a study: `plugformer ablate top.yaml` runs it"),
        ("tasks: {}\narms: {}", "top.yaml:1:1  this is a study: `plugformer ablate top.yaml` runs it"),
        ("extends: ${NO_SUCH}/a.yaml", "the variable 'NO_SUCH' is not set"),
        (
            "registry: absent.yaml",
            "top.yaml:1:11  registry: the local manifest '{folder}/absent.yaml' cannot be read",
        ),
    ],
)
def test_messages(write, registry, text: str, message: str) -> None:
    top = write("top.yaml", text)
    write("other.yaml", "extends: top.yaml")
    write("inner/task.yaml", "extends: top.yaml")
    with pytest.raises(ConfigurationError, match=re.escape(message.format(folder=top.parent))):
        resolve("top.yaml", registry=registry)


def test_a_local_manifest_is_relative_to_the_file_that_names_it(write, base, registry) -> None:
    write("inner/parts.yaml", "components: {metric: {here: {class: 'parts_of_layers:Here'}}}")
    write("inner/task.yaml", "extends: ../base.yaml\nregistry: parts.yaml\nevaluation: {metrics: [here]}\n")
    resolved = resolve("inner/task.yaml", registry=registry)
    file = Path("inner/parts.yaml").resolve()
    assert file in resolved.registry.local
    assert resolved.task.registry == str(file)
    assert resolved.registry.find("metric", "here").distribution == "local"
    with pytest.raises(RegistryError):
        registry.find("metric", "here")


def test_a_task_mixes_local_manifests(write, base, registry) -> None:
    for name in ("one", "two"):
        write(f"{name}.yaml", f"components: {{metric: {{{name}: {{class: 'parts_of_layers:Here'}}}}}}")
    write(
        "task.yaml", "extends: base.yaml\nregistry: [one.yaml, two.yaml]\nevaluation: {metrics: [one, two]}\n"
    )
    resolved = resolve("task.yaml", registry=registry)
    files = [Path(f"{name}.yaml").resolve() for name in ("one", "two")]
    assert resolved.task.registry == list(map(str, files))
    assert resolved.registry.local == (*registry.local, *files)
    assert registry.with_local(*files, files[0]).local == resolved.registry.local


def test_set_may_name_a_local_manifest(write, base, registry) -> None:
    write("parts.yaml", "components: {metric: {here: {class: 'parts_of_layers:Here'}}}")
    resolved = resolve("base.yaml", ["registry=parts.yaml", "evaluation.metrics=[here]"], registry)
    assert resolved.registry.find("metric", "here")


def test_set_cannot_extend_a_task(write, base, registry) -> None:
    message = "^--set extends=dates  extends: only a task file can extend a task"
    with pytest.raises(ConfigurationError, match=message):
        resolve("base.yaml", ["extends=dates"], registry)


@pytest.mark.parametrize("task", [None, []])
def test_what_is_no_task_is_an_error(task, registry) -> None:
    with pytest.raises(ConfigurationError, match=f"^task: .* found {re.escape(repr(task))}"):
        resolve(task, registry=registry)


def test_the_registry_is_discovered_if_none_is_given(write, base, registry, monkeypatch) -> None:
    monkeypatch.setenv("PLUGFORMER_REGISTRY", str(registry.local[0]))
    assert isinstance(resolve("base.yaml").registry, Registry)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("dates", "dates"),
        ("plugformer:dates", "dates"),
        ("sums.yaml", "sums"),
        ("examples/sizes/study.yaml", "sizes"),
        ("./examples/sums/task.yaml", "sums"),
        ("/task.yaml", "task"),
    ],
)
def test_folders_of_results_are_called_after_what_tells_tasks_apart(given, name):
    assert short_name(given) == name
