"""A new task: a task file, some examples, and a page about them."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from plugformer.configuration import Component
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, Level, TaskType
from plugformer.registry import Kind, Registry
from plugformer.validation import fitting, measures, reads, serves
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_DECODING = re.compile(r"^decoding:.*\n", re.MULTILINE)


class SampleColumn(NamedTuple):
    """A column of a sample file: its name or number, what it holds, and its role, None for either."""

    name: str | int
    holds: str
    role: Literal["input", "output"] | None


class SampleFile(NamedTuple):
    """A file of examples, its columns, and metrics of answers, the best known first.

    The template of its task file has the same name, with .yaml.
    """

    file: str
    columns: tuple[SampleColumn, ...]
    metrics: tuple[str, ...]


SAMPLES = (
    SampleFile("story.txt", (SampleColumn("", "text", None),), ("perplexity",)),
    SampleFile(
        "pairs.tsv",
        (SampleColumn("words", "text", "input"), SampleColumn("digits", "text", "output")),
        ("exact_match",),
    ),
    SampleFile(
        "sentences.conll",
        (SampleColumn(1, "words", "input"), SampleColumn(2, "tags", "output")),
        ("tag_accuracy",),
    ),
    SampleFile(
        "reviews.csv",
        (
            SampleColumn("text", "text", "input"),
            SampleColumn("title", "text", "input"),
            SampleColumn("label", "label", "output"),
            SampleColumn("topics", "labels", "output"),
            SampleColumn("stars", "number", "output"),
        ),
        ("accuracy", "micro_f1", "mean_squared_error"),
    ),
)


def task_files(name: str, block: Component, folder: Path, registry: Registry) -> Files:
    """Returns the files of a new task.

    The examples are the first of `SAMPLES` that have the columns of the task type; architecture, head and
    metric are installed ones that fit it.

    Args:
        name: Name of the task.
        block: The task type, with options.
        folder: Where the files will be, for the commands in them.
        registry: What is installed.

    Raises:
        ConfigurationError: The name or an option of the type is wrong, or no sample or no installed component
            fits the type.
        RegistryError: The type is unknown, or cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a task; expected letters, digits, -, _ and ., starting with a "
            "letter or digit; --out chooses the folder"
        )
    task_type: TaskType = registry.create(Kind.TASK_TYPE, block.name, **block.options)
    wanted = [column for column in task_type.columns if not column.optional]
    matches = ((sample, _matched(sample.columns, wanted)) for sample in SAMPLES)
    sample, columns = next(((sample, match) for sample, match in matches if match is not None), (None, None))
    if sample is None:
        listed = ", ".join(f"{column.name} ({column.holds}, {column.role})" for column in wanted)
        raise ConfigurationError(
            f"there are no examples for a {block.name} task, whose columns are {listed}\n"
            "  expected one text, a text for a text, tags for words, or a label, labels or a number for one "
            "or two texts\n"
            "  write the task file by hand, with data that have these columns"
        )
    metrics = [metric for metric in sample.metrics if measures(registry.load(Kind.METRIC, metric), task_type)]
    names = {
        "new-task": name,
        "NEW_FILE": shlex.quote(str(folder / "task.yaml")),
        "NEW_DATA": sample.file,
        "NEW_TYPE": _yaml({"name": block.name, **block.options} if block.options else block.name),
        "NEW_COLUMNS": _yaml(columns),
        "NEW_ARCHITECTURE": _architecture(block.name, task_type, registry),
        "NEW_HEAD": _head(block.name, task_type, registry),
        "NEW_METRICS": _yaml(metrics[:1]),
    }
    task = filled(template(f"task/{Path(sample.file).stem}.yaml"), names)
    return {
        "task.yaml": task if task_type.level is Level.NEXT_TOKEN else _DECODING.sub("", task),
        sample.file: template(f"task/{sample.file}"),
        "README.md": filled(template("task/README.md"), names),
    }


def _matched(given: Sequence[SampleColumn], wanted: Sequence[Column]) -> dict[str, str | int] | None:
    """Returns a sample's column for each column of a task; None if one is missing."""
    unused = list(given)
    chosen: dict[str, str | int] = {}
    for column in sorted(wanted, key=lambda column: column.name not in {sample.name for sample in given}):
        fits = [
            sample for sample in unused if sample.holds == column.holds and sample.role in (None, column.role)
        ]
        if not fits:
            return None
        match = next((sample for sample in fits if sample.name == column.name), fits[0])
        unused.remove(match)
        chosen[column.name] = match.name
    return {column.name: chosen[column.name] for column in wanted}


def _architecture(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the architecture whose stacks are the fewest that read the input and continue the output."""
    stacks = {False} if any(column.role == "input" for column in task_type.columns) else set()
    stacks |= {True} if task_type.level is Level.NEXT_TOKEN else set()
    candidates = fitting(
        registry,
        Kind.ARCHITECTURE,
        lambda architecture: task_type.level in architecture.levels and reads(task_type, architecture),
    )
    distance = {
        candidate: len(stacks ^ {stack.causal for stack in architecture.stacks})
        for candidate, architecture in candidates.items()
    }
    return _first(sorted(distance, key=lambda candidate: distance[candidate]), "architecture", name)


def _head(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the head for the fewest types of output."""
    candidates = fitting(registry, Kind.HEAD, lambda head: serves(head, task_type))
    ranked = sorted(candidates, key=lambda candidate: len(candidates[candidate].output_types))
    return _first(ranked, "head", name)


def _first(names: list[str], kind: str, task_type: str) -> str:
    if not names:
        raise ConfigurationError(
            f"no {kind} for a {task_type} task is installed; install a plugin that has one"
        )
    return names[0]


def _yaml(value: Any) -> str:
    """Returns a value as YAML on one line."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("\n").removesuffix("\n...")
