"""Files that a task does not name, read as those are that it does: to measure a trained model on them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from datasets import Dataset
from pydantic import ValidationError

from plugformer.cache import scratch_folder
from plugformer.configuration.task import Task
from plugformer.creation import create_architecture
from plugformer.data.arrow_files import PLACE
from plugformer.data.encoding import EncodedSplit
from plugformer.data.length import LengthCount, limited
from plugformer.data.preparation import quiet
from plugformer.data.splitting import refuse_other_order
from plugformer.data.tokenizing import encode_to_file
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces.data import Data
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.registry.options import options_model

_OPTION = "files"
_CLASSES = "labels"
"""The option that names the classes; a component with another one takes them from the files."""

_SPLIT = "train"


def read_files(
    files: Sequence[Path], task: Task, registry: Registry, vocabularies: Vocabularies
) -> tuple[EncodedSplit, LengthCount, Sequence[str]]:
    """Reads examples with a task's data component, as its options say, from other files.

    Args:
        files: One, or two parallel ones, or several that follow one another.
        task: Fully resolved.
        registry: Knows the data component.
        vocabularies: What the model knows.

    Returns:
        The examples, what the task's length limit did to them, and what the component says about them.

    Raises:
        ConfigurationError: The data component reads no files, or not these.
        DataError: A file is malformed, has a label that is no class, or an example that is too long and the
            task refuses it.
    """
    task_type, name = vocabularies.task_type, ", ".join(map(str, files))
    options = _with_files(files, task, registry)
    if _CLASSES in options and options[_CLASSES] is None:
        options[_CLASSES] = vocabularies.classes
    data: Data = registry.create(Kind.DATA, task.data.name, **options)
    with quiet():
        splits = data.load(task_type.columns)
        examples = splits[_SPLIT]
        refuse_other_order(splits[_SPLIT].features, task_type.columns, vocabularies.classes)
        if len(examples) == 0:
            raise DataError(f"{name}: no examples; check the file")

        def place(row: int) -> str:
            return f"{name}, example {row + 1}"

        encoded = _encoded(examples, vocabularies, place)
    split, count = limited(encoded, task, vocabularies, create_architecture(task, registry), place)
    if len(split) == 0:
        raise DataError(f"{name}: all examples are longer than the limit of the run's task")
    return split, count, data.notices()


def _with_files(files: Sequence[Path], task: Task, registry: Registry) -> dict[str, Any]:
    """Returns the options of a task's data with other files in place of its own."""
    name = task.data.name
    model = options_model(registry.load(Kind.DATA, name))
    if _OPTION not in model.model_fields:
        raise ConfigurationError(
            f"data {name!r} has no option {_OPTION!r}, so that it cannot read others; "
            "change its own options with --set data.OPTION=VALUE"
        )
    paths = [str(file.absolute()) for file in files]
    forms: list[object] = [paths[0]] if len(paths) == 1 else [paths]
    if len(paths) == 2:
        forms = [dict(zip(("source", "target"), paths, strict=True)), *forms]
    for form in forms:
        options = {**task.data.options, _OPTION: {_SPLIT: form}}
        with suppress(ValidationError):
            model.model_validate(options)
            return options
    raise ConfigurationError(
        f"data {name!r} cannot read {len(paths)} file{'s' * (len(paths) > 1)} as a split: "
        f"{', '.join(map(str, files))}; parallel files are two, source before target"
    )


def _encoded(examples: Dataset, vocabularies: Vocabularies, place: Callable[[int], str]) -> Dataset:
    """Returns examples with their numbers, memory-mapped."""
    file = scratch_folder(PLACE) / f"{uuid4().hex}.arrow"
    try:
        encode_to_file(file, examples, vocabularies, place)
        return Dataset.from_file(str(file))
    finally:
        with suppress(OSError):  # what is mapped stays readable; Windows keeps it until the process ends
            file.unlink()
