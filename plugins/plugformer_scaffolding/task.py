"""A new task: a task file, some examples, and a page about them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from plugformer.compatibility import fitting, measures, reads, serves
from plugformer.configuration import Component
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, Level, TaskType
from plugformer.registry import Kind, Registry
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_DECODING = re.compile(r"^decoding:.*\n", re.MULTILINE)


class Offer(NamedTuple):
    """A column of a file of examples.

    Attributes:
        name: Its name there, or its number; empty in plain text.
        holds: As of a task's columns.
        role: As of a task's columns; None for either.
    """

    name: str | int
    holds: str
    role: Literal["input", "output"] | None

    def serves(self, column: Column) -> bool:
        """Returns whether it has what a task's column holds."""
        return self.holds == column.holds and self.role in (None, column.role)


@dataclass(frozen=True)
class Sample:
    """A file of examples; the task file for it has the same name, with .yaml.

    Attributes:
        file: Name of its template.
        offers: Its columns.
        metrics: What measures answers to them, the best known first.
    """

    file: str
    offers: tuple[Offer, ...]
    metrics: tuple[str, ...]

    def columns(self, wanted: Sequence[Column]) -> Mapping[str, str | int] | None:
        """Returns the data's column for each of a task's: the one of the same name, or the next that fits.

        Args:
            wanted: The columns that the task's examples must have.

        Returns:
            Its columns by those of the task; None if it lacks one.
        """
        left = list(self.offers)
        found: dict[str, str | int] = {}
        for column in sorted(wanted, key=lambda each: all(offer.name != each.name for offer in left)):
            fitting = [offer for offer in left if offer.serves(column)]
            if not fitting:
                return None
            chosen = next((offer for offer in fitting if offer.name == column.name), fitting[0])
            left.remove(chosen)
            found[column.name] = chosen.name
        return {column.name: found[column.name] for column in wanted}


SAMPLES: tuple[Sample, ...] = (
    Sample("story.txt", (Offer("", "text", None),), ("perplexity",)),
    Sample(
        "pairs.tsv", (Offer("words", "text", "input"), Offer("digits", "text", "output")), ("exact_match",)
    ),
    Sample("sentences.conll", (Offer(1, "words", "input"), Offer(2, "tags", "output")), ("tag_accuracy",)),
    Sample(
        "reviews.csv",
        (
            Offer("text", "text", "input"),
            Offer("title", "text", "input"),
            Offer("label", "label", "output"),
            Offer("topics", "labels", "output"),
            Offer("stars", "number", "output"),
        ),
        ("accuracy", "micro_f1", "mean_squared_error"),
    ),
)


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
    shown = ", ".join(f"{column.name} ({column.holds}, {column.role})" for column in wanted)
    raise ConfigurationError(
        f"there are no examples for a {name} task, whose columns are {shown}\n"
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
    return _first(sorted(found, key=lambda each: len(found[each].output_types)), f"head for a {name} task")


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
