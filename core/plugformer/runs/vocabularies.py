"""What turns text into numbers and back: kept with a run, and read from it."""

from typing import Any

from pydantic import ConfigDict, TypeAdapter

from plugformer.configuration.task import Task
from plugformer.creation import create_task_type
from plugformer.data.vocabularies import Vocabularies, load_vocabularies, save_tokenizers
from plugformer.interfaces import TaskType
from plugformer.registry import Registry
from plugformer.runs.directory import RunDirectory
from plugformer.runs.files import read_json, write_json


def save_vocabularies(vocabularies: Vocabularies, directory: RunDirectory) -> None:
    """Writes one file for all tokenizers, or one for each side, and what the task's type has learned."""
    save_tokenizers(vocabularies.tokenizers, directory.path)
    write_json(directory.learned, vocabularies.learned)


def read_vocabularies(directory: RunDirectory, task: Task, registry: Registry) -> Vocabularies:
    """Reads what `save_vocabularies` wrote.

    Raises:
        RunError: A file is missing or damaged.
    """
    learned = read_learned(directory, create_task_type(task, registry))
    return load_vocabularies(task, registry, directory.path, learned)


def read_learned(directory: RunDirectory, task_type: TaskType | None = None) -> Any:
    """Returns the learned state of a run's task type.

    Args:
        directory: The run.
        task_type: Its task's type; None if any is right.

    Raises:
        RunError: The file is missing, or has something else than the type learns.
    """
    if task_type is None:
        return read_json(directory.learned)
    schema: TypeAdapter[object] = TypeAdapter(task_type.state_type, config=ConfigDict(strict=True))
    return read_json(directory.learned, schema)
