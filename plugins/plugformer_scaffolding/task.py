"""A new task: a task file, some examples, and a page about them."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from plugformer.configuration import Component
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Level, TaskType
from plugformer.model import fitting, measures, reads, serves
from plugformer.registry import Kind, Registry
from plugformer_scaffolding.examples import SAMPLES, Sample, described
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DECODING = re.compile(r"^decoding:.*\n", re.MULTILINE)


def task_files(name: str, block: Component, folder: Path, registry: Registry) -> Files:
    """Returns the files of a new task.

    The examples are the first of `SAMPLES` that have the columns of the task's type; architecture, head and
    metric are installed ones that fit it.

    Args:
        name: Of the task.
        block: Its type, with options.
        folder: Where the files will be, for the commands in them.
        registry: What is installed.

    Raises:
        ConfigurationError: The name is none, an option of the type is wrong, or no sample or nothing that is
            installed fits the type.
        RegistryError: The type is unknown, or cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a task; expected letters, digits, -, _ and ., a letter or digit "
            "first; --out says where the folder goes"
        )
    task_type: TaskType = registry.create(Kind.TASK_TYPE, block.name, **block.options)
    sample, columns = _sample(block.name, task_type)
    names = {
        "new-task": name,
        "NEW_FILE": shlex.quote(str(folder / "task.yaml")),
        "NEW_DATA": sample.file,
        "NEW_TYPE": _yaml({"name": block.name, **block.options} if block.options else block.name),
        "NEW_COLUMNS": _yaml(dict(columns)),
        "NEW_ARCHITECTURE": _architecture(block.name, task_type, registry),
        "NEW_HEAD": _head(block.name, task_type, registry),
        "NEW_METRICS": _yaml(_metrics(sample, task_type, registry)),
    }
    task = filled(template(f"task/{Path(sample.file).stem}.yaml"), names)
    if task_type.level is not Level.NEXT_TOKEN:
        task = _DECODING.sub("", task)
    return {
        "task.yaml": task,
        sample.file: template(f"task/{sample.file}"),
        "README.md": filled(template("task/README.md"), names),
    }


def _sample(name: str, task_type: TaskType) -> tuple[Sample, Mapping[str, str | int]]:
    """Returns the examples for a task's type, and their column for each of its own."""
    wanted = [column for column in task_type.columns if not column.optional]
    for sample in SAMPLES:
        if (columns := sample.columns(wanted)) is not None:
            return sample, columns
    raise ConfigurationError(
        f"there are no examples for a {name} task, whose columns are {described(wanted)}\n"
        "  expected a text alone, a text for a text, tags for words, or a label, labels or a number for one "
        "or two texts\n"
        "  write its task file by hand, with data that have these columns"
    )


def _architecture(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the architecture with a stack that reads, one that continues, or both, as is of use."""
    stacks = {False} if any(column.role == "input" for column in task_type.columns) else set()
    stacks |= {True} if task_type.level is Level.NEXT_TOKEN else set()
    found = fitting(
        registry,
        Kind.ARCHITECTURE,
        lambda each: task_type.level in each.levels and reads(task_type, each),
    )
    ranked = sorted(found, key=lambda each: len(stacks ^ {stack.causal for stack in found[each].stacks}))
    return _first(ranked, f"architecture for a {name} task")


def _head(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the head for the fewest kinds of answer."""
    found = fitting(registry, Kind.HEAD, lambda each: serves(each, task_type))
    return _first(sorted(found, key=lambda each: len(found[each].answer_types)), f"head for a {name} task")


def _metrics(sample: Sample, task_type: TaskType, registry: Registry) -> list[str]:
    """Returns the first metric of a sample that measures the answers; none if none does."""
    found = [each for each in sample.metrics if measures(registry.load(Kind.METRIC, each), task_type)]
    return found[:1]


def _first(names: list[str], what: str) -> str:
    if not names:
        raise ConfigurationError(f"no {what} is installed; install a plugin that has one")
    return names[0]


def _yaml(value: Any) -> str:
    """Returns a value as YAML on one line."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("\n").removesuffix("\n...")
