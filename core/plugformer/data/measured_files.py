"""Files that a trained model is measured on instead of those of its task."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from plugformer.data.arrow import encode_to_file, mapped
from plugformer.data.encoding import EncodedSplit
from plugformer.data.length import limited
from plugformer.data.preparation import quiet
from plugformer.data.processor import Processor
from plugformer.data.split_stats import SplitStats
from plugformer.data.splitting import refuse_other_order
from plugformer.errors import ConfigurationError, DataError
from plugformer.experiment import Experiment
from plugformer.interfaces.data import Data
from plugformer.registry import Kind
from plugformer.registry.options import keys_of, options_model

_OPTION = "files"

_CLASSES = "labels"
"""The option that names the classes; a component without it takes them from the training files."""

_SPLIT = "test_files"
"""The split that the files are read as. A component may cut a split called `test` off the training files."""


def read_files(
    files: Sequence[Path], experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Reads examples from other files with the options of a task's data component.

    Args:
        files: One, or two parallel ones, or several that follow one another.
        experiment: Has the data component and the limits of its examples.
        processor: Of the model.

    Returns:
        The examples, their counts, and the notices of the component.

    Raises:
        ConfigurationError: The data component reads no files, or not these.
        DataError: A file is malformed, has a label that is not a class, or an example that is too long and
            the task refuses it.
    """
    task, registry = experiment.task, experiment.registry
    name = ", ".join(map(str, files))
    part = _SPLIT if processor.classes is None or _CLASSES in task.data.options else "train"
    options = _with_files(files, part, experiment)
    if _CLASSES in options and options[_CLASSES] is None:
        options[_CLASSES] = processor.classes
    data: Data = registry.create(Kind.DATA, task.data.name, **options)
    return _encoded(data, part, name, experiment, processor)


def _encoded(
    data: Data, part: str, name: str, experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Returns a split of other data as the model reads it; `name` is what messages call the data."""
    task, task_type = experiment.task, processor.task_type
    with quiet():
        examples = data.load(task_type.columns)[part]
        refuse_other_order(examples.features, task_type.columns, processor.classes)
        if len(examples) == 0:
            raise DataError(f"{name}: no examples; check the file")

        def place(row: int) -> str:
            return f"{name}, example {row + 1}"

        encoded = mapped(lambda file: encode_to_file(file, examples, processor, place))
    split, count = limited(encoded, task, processor, experiment.architecture, place)
    if len(split) == 0:
        raise DataError(f"{name}: all examples are longer than the limit of the run's task")
    return split, count, data.notices()


def read_rows(
    rows: Any, experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Does what `read_files` does with rows in memory, which have the columns of the task.

    Raises:
        DataError: A row is malformed, has a label that is no class, or is too long and the task refuses it.
    """
    own = experiment.task.data
    options = own.options if own.name == "memory" else {}
    data: Data = experiment.registry.create(Kind.DATA, "memory", **{**options, "labels": processor.classes})
    data.rows = {"rows": rows}
    return _encoded(data, "rows", "the rows", experiment, processor)


def _with_files(files: Sequence[Path], split: str, experiment: Experiment) -> dict[str, Any]:
    """Returns the options of a task's data with other files as the only split."""
    task, name = experiment.task, experiment.task.data.name
    model = options_model(experiment.registry.load(Kind.DATA, name))
    if _OPTION not in keys_of(model):
        raise ConfigurationError(
            f"data {name!r} has no option {_OPTION!r}, so that it cannot read others; "
            "change its own options with --set data.OPTION=VALUE"
        )
    paths = [str(file.absolute()) for file in files]
    forms: list[object] = [paths[0]] if len(paths) == 1 else [paths]
    if len(paths) == 2:
        forms = [dict(zip(("source", "target"), paths, strict=True)), *forms]
    for form in forms:
        options = {**task.data.options, _OPTION: {split: form}}
        with suppress(ValidationError):
            model.model_validate(options)
            return options
    raise ConfigurationError(
        f"data {name!r} cannot read {len(paths)} file{'s' * (len(paths) > 1)} as a split: "
        f"{', '.join(map(str, files))}; parallel files are two, source before target"
    )
