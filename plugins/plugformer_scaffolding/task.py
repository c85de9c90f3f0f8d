"""A new task: a task file, some examples, and a page about them."""

import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from plugformer.configuration import Component
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, Level, TaskType
from plugformer.registry import Kind, Registry
from plugformer.validation import fitting, measures, reads, serves
from plugformer_scaffolding.templates import Files, filled, template

_DECODING = re.compile(r"^decoding:.*\n", re.MULTILINE)

Sample = tuple[str | int, str, str | None]
"""A column of a sample file: its name or number, what it holds, and its role, None for either."""

SAMPLES: dict[str, tuple[list[Sample], list[str]]] = {
    "story.txt": ([("", "text", None)], ["perplexity"]),
    "pairs.tsv": ([("words", "text", "input"), ("digits", "text", "output")], ["exact_match"]),
    "sentences.conll": ([(1, "words", "input"), (2, "tags", "output")], ["tag_accuracy"]),
    "reviews.csv": (
        [
            ("text", "text", "input"),
            ("title", "text", "input"),
            ("label", "label", "output"),
            ("topics", "labels", "output"),
            ("stars", "number", "output"),
        ],
        ["accuracy", "micro_f1", "mean_squared_error"],
    ),
}
"""Files of examples with their columns and metrics, the best known first; each has a template of a task."""


def task_files(name: str, block: Component, folder: Path, registry: Registry) -> Files:
    """Returns the files of a new task.

    The examples are the first of `SAMPLES` that have the columns of the task type; architecture, head and
    metric are installed ones that fit it. The commands in the files name `folder`.

    Raises:
        ConfigurationError: The name or an option of the type is wrong, or no sample or no installed component
            fits the type.
        RegistryError: The type is unknown, or cannot be used.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigurationError(
            f"{name!r} is not the name of a task; expected letters, digits, -, _ and ., starting with a "
            "letter or digit; --out chooses the folder"
        )
    task_type: TaskType = registry.create(Kind.TASK_TYPE, block.name, **block.options)
    wanted = [column for column in task_type.columns if not column.optional]
    matches = {file: _matched(given, wanted) for file, (given, _) in SAMPLES.items()}
    sample = next((file for file, columns in matches.items() if columns), None)
    if sample is None:
        listed = ", ".join(f"{column.name} ({column.holds}, {column.role})" for column in wanted)
        raise ConfigurationError(
            f"there are no examples for a {block.name} task, whose columns are {listed}\n"
            "  write the task file by hand, with data that have these columns"
        )
    known = SAMPLES[sample][1]
    metrics = [metric for metric in known if measures(registry.load(Kind.METRIC, metric), task_type)]
    names = {
        "new-task": name,
        "NEW_FILE": shlex.quote(str(folder / "task.yaml")),
        "NEW_DATA": sample,
        "NEW_TYPE": _yaml({"name": block.name, **block.options} if block.options else block.name),
        "NEW_COLUMNS": _yaml(matches[sample]),
        "NEW_ARCHITECTURE": _architecture(block.name, task_type, registry),
        "NEW_HEAD": _head(block.name, task_type, registry),
        "NEW_METRICS": _yaml(metrics[:1]),
    }
    task = filled(template(f"task/{Path(sample).stem}.yaml"), names)
    return {
        "task.yaml": task if task_type.level is Level.NEXT_TOKEN else _DECODING.sub("", task),
        sample: template(f"task/{sample}"),
        "README.md": filled(template("task/README.md"), names),
    }


def _matched(given: Sequence[Sample], wanted: Sequence[Column]) -> dict[str, str | int]:
    """Returns a sample's column for each column of a task, of the same name if possible; {} if one lacks."""
    unused = list(given)
    chosen: dict[str, str | int] = {}
    names = {name for name, _, _ in given}
    for column in sorted(wanted, key=lambda column: column.name not in names):
        fits = [sample for sample in unused if sample[1] == column.holds and sample[2] in (None, column.role)]
        if not fits:
            return {}
        match = next((sample for sample in fits if sample[0] == column.name), fits[0])
        unused.remove(match)
        chosen[column.name] = match[0]
    return {column.name: chosen[column.name] for column in wanted}


def _architecture(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the architecture whose stacks are the fewest that read the input and continue the output."""
    stacks = {False} if task_type.inputs else set()
    stacks |= {True} if task_type.level is Level.NEXT_TOKEN else set()
    candidates = fitting(registry, Kind.ARCHITECTURE, partial(reads, task_type))
    distance = {
        candidate: len(stacks ^ {stack == "decoder" for stack, _ in architecture.stacks})
        for candidate, architecture in candidates.items()
    }
    return _first(sorted(distance, key=distance.__getitem__), "architecture", name)


def _head(name: str, task_type: TaskType, registry: Registry) -> str:
    """Returns the head for the fewest types of output."""
    candidates = fitting(registry, Kind.HEAD, lambda head: serves(head, task_type))
    ranked = sorted(candidates, key=lambda candidate: len(candidates[candidate].output_types))
    return _first(ranked, "head", name)


def _first(names: list[str], kind: str, task_type: str) -> str:
    if not names:
        raise ConfigurationError(f"no {kind} for a {task_type} task is installed; install one")
    return names[0]


def _yaml(value: Any) -> str:
    """Returns a value as YAML on one line."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("\n").removesuffix("\n...")
