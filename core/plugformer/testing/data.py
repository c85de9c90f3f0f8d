"""The contract of data: see plugformer.interfaces.data."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Data, TaskType
from plugformer.testing.check import NotApplicable, check, fail, require
from plugformer.testing.processes import in_another_process
from plugformer.testing.subject import Subject

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDataset, IterableDatasetDict

TYPES = tuple(TaskType)

_STREAMED = 200
"""Examples of each split that are compared with those of its stream."""


@check()
def serves_a_type_of_task(subject: Subject) -> None:
    """It loads for one type of task at least, and refuses the other with an error of Plugformer's."""
    refusals = []
    for task_type in TYPES:
        try:
            _loaded(subject, task_type)
        except NotApplicable as refusal:
            refusals.append(str(refusal))
    require(len(refusals) < len(TYPES), f"it serves no type of task: {'; '.join(refusals)}")


@check(TYPES)
def splits_have_their_names(subject: Subject, task_type: TaskType) -> None:
    """Splits are train, and any of validation and names that begin with test; none is empty."""
    splits = _loaded(subject, task_type)
    require("train" in splits, f"there is no train split, only {', '.join(map(str, splits))}")
    for name, split in splits.items():
        require(
            re.fullmatch(r"train|validation|test\w*", str(name)) is not None,
            f"split {name!r} is none of train, validation and names that begin with test",
        )
        require(len(split) > 0, f"split {name!r} is empty")


@check(TYPES)
def examples_fit_the_task(subject: Subject, task_type: TaskType) -> None:
    """Every example has text that is not blank: source and target, or text with a label.

    Labels are classes (datasets.ClassLabel), the same in all splits; references are lists of text.
    """
    columns = {TaskType.SEQUENCE_TO_SEQUENCE: _require_sequences, TaskType.CLASSIFICATION: _require_classes}
    classes = set()
    for name, split in _loaded(subject, task_type).items():
        missing = [column for column in task_type.columns if column not in split.column_names]
        require(not missing, f"split {name!r} has no column {', '.join(missing)}, only {split.column_names}")
        classes.add(columns[task_type](str(name), split))
    require(len(classes) == 1, f"splits name different classes: {sorted(classes)}")


@check(TYPES)
def what_loads_has_no_problems(subject: Subject, task_type: TaskType) -> None:
    """Before it reads, it finds nothing wrong with options with which it loads."""
    _loaded(subject, task_type)
    found = list(subject.create().problems(task_type))
    require(not found, f"problems finds {found[:1]}, but load reads the examples")


@check(TYPES)
def loading_is_repeatable(subject: Subject, task_type: TaskType) -> None:
    """Loaded again, by another object, every split holds the same examples in the same order."""
    first = _loaded(subject, task_type)
    second = subject.create().load(task_type)
    require(list(first) == list(second), "loaded again, there are other splits")
    for name, split in first.items():
        for column in split.column_names:
            require(
                list(split[column]) == list(second[name][column]),
                f"loaded again, the {column} column of split {name!r} holds something else: "
                "examples depend on something that is not an option",
            )


@check(TYPES)
def a_stream_has_the_same_examples(subject: Subject, task_type: TaskType) -> None:
    """Streamed, every split has the examples that load gives, and goes on exactly from a saved state."""
    splits = _loaded(subject, task_type)
    streams, again = (_streamed(subject, task_type) for _ in range(2))
    require(list(streams) == list(splits), f"streamed, the splits are {list(streams)}, not {list(splits)}")
    for name, split in splits.items():
        columns = [column for column in (*task_type.columns, "references") if column in split.column_names]
        expected = [{column: row[column] for column in columns} for row in islice(split, _STREAMED)]
        rows, half = _sound(streams[name], columns), len(expected) // 2
        found = list(islice(rows, half))
        again[name].load_state_dict(json.loads(json.dumps(streams[name].state_dict())))
        rest = list(islice(rows, len(expected) - half))
        resumed = list(islice(_sound(again[name], columns), len(rest)))
        require(found + rest == expected, f"streamed, split {name!r} holds other examples than loaded")
        require(resumed == rest, f"split {name!r} goes on with other examples from its saved state")


@check()
def version_is_repeatable(subject: Subject) -> None:
    """The version is a text, and the same in another object, after loading, and in another process."""
    version = subject.create().version()
    require(isinstance(version, str), f"the version is {version!r}, expected a text")
    data: Data = subject.create()
    for task_type in TYPES:
        with suppress(ConfigurationError, DataError):
            data.load(task_type)
    require(
        data.version() == version, f"after loading, the version is {data.version()!r} instead of {version!r}"
    )
    with TemporaryDirectory() as folder:
        file = Path(folder, "version")
        in_another_process(subject, file)
        other = file.read_text(encoding="utf-8")
    require(other == version, f"in another process, the version is {other!r} instead of {version!r}")


def _loaded(subject: Subject, task_type: TaskType) -> "DatasetDict":
    """Returns the splits for a type of task, loaded once for all checks.

    Raises:
        NotApplicable: The component does not serve this type.
    """

    def load() -> "DatasetDict | str":
        data: Data = subject.create()
        try:
            return data.load(task_type)
        except (ConfigurationError, DataError) as refusal:
            return str(refusal)

    splits = subject.once(task_type, load)
    if isinstance(splits, str):
        raise NotApplicable(splits)
    return splits


def _streamed(subject: Subject, task_type: TaskType) -> "IterableDatasetDict":
    """Returns the streams of new data.

    Raises:
        NotApplicable: The component cannot stream what it loads, such as classes that nobody has named.
    """
    data: Data = subject.create()
    try:
        return data.stream(task_type)
    except ConfigurationError as refusal:
        raise NotApplicable(str(refusal)) from refusal


def _sound(stream: "IterableDataset", columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    return ({column: row[column] for column in columns} for row in stream if not row.get("fault"))


def _require_sequences(name: str, split: Any) -> tuple[str, ...]:
    for column in TaskType.SEQUENCE_TO_SEQUENCE.columns:
        _require_text(name, column, split[column])
    if "references" in split.column_names:
        for number, references in enumerate(split["references"]):
            _require_text(name, f"references of example {number}", references)
    return ()


def _require_classes(name: str, split: Any) -> tuple[str, ...]:
    """Returns the names of the classes."""
    from datasets import ClassLabel

    _require_text(name, "text", split["text"])
    feature: Any = split.features["label"]
    require(
        isinstance(feature, ClassLabel), f"the label of split {name!r} is {feature}, expected a ClassLabel"
    )
    for number, label in enumerate(split["label"]):
        require(
            isinstance(label, int) and 0 <= label < len(feature.names),
            f"example {number} of split {name!r} has the label {label!r}, "
            f"there are {len(feature.names)} classes",
        )
    return tuple(feature.names)


def _require_text(name: str, column: str, values: Any) -> None:
    for number, value in enumerate(values):
        if not (isinstance(value, str) and value.strip()):
            fail(f"the {column} of example {number} of split {name!r} is {value!r}, expected text")


CHECKS = (
    serves_a_type_of_task,
    splits_have_their_names,
    examples_fit_the_task,
    what_loads_has_no_problems,
    loading_is_repeatable,
    a_stream_has_the_same_examples,
    version_is_repeatable,
)
