"""What turns text into numbers and back: kept with a run, and read from it."""

from typing import Any

from pydantic import ConfigDict, TypeAdapter

from plugformer.data.files import files_version
from plugformer.data.processor import Processor, load_processor, save_tokenizers
from plugformer.errors import RunError
from plugformer.experiment import Experiment
from plugformer.interfaces import TaskType
from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import RESTORE, read_json, write_json


def save_processor(processor: Processor, directory: RunDirectory) -> dict[str, str]:
    """Writes the state of the task's type and the files of the tokenizers; returns a hash of each file."""
    write_json(directory.learned, processor.learned)
    return save_tokenizers(processor.tokenizers, directory.path)


def read_processor(directory: RunDirectory, experiment: Experiment) -> Processor:
    """Reads what `save_processor` wrote.

    Raises:
        RunError: A file is missing or damaged.
    """
    learned = read_learned(directory, experiment.task_type)
    processor = load_processor(experiment, directory.path, learned)
    for side, expected in directory.lock().get("tokenizers", {}).items():
        file = directory.path / f"tokenizer-{side}.json"
        if files_version([file]) != expected:
            raise RunError(f"{file} is damaged: it is not the file that the run was trained with; {RESTORE}")
    return processor


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
