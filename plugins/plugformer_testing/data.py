"""The contract of data, see plugformer.interfaces.data."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from plugformer.errors import ConfigurationError, DataError, described
from plugformer.interfaces import Column, Data
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.processes import in_another_process
from plugformer_testing.small import with_kinds
from plugformer_testing.subject import Subject

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDataset


_TEXT = Column("text", "text", "input", tokenizer="source")
_WORDS = Column("words", "words", "input", tokenizer="source")
TYPES = {
    "pairs of texts": (
        Column("source", "text", "input", tokenizer="source"),
        Column("target", "text", "output", tokenizer="target"),
        Column("references", "texts", "output", optional=True),
    ),
    "label": (_TEXT, Column("label", "label", "output")),
    "labels": (_TEXT, Column("labels", "labels", "output")),
    "number": (_TEXT, Column("number", "number", "output")),
    "tags": (_WORDS, Column("tags", "tags", "output", along="words")),
    "numbers": (_WORDS, Column("numbers", "numbers", "output", along="words")),
    "text": (_TEXT,),
}

_ROW: dict[str, Any] = {"source": "a", "target": "b", "references": ["b", "c"], "text": "good"}
_ROW |= {"label": "yes", "labels": ["yes", "no"], "number": 1.5, "words": ["a", "b"], "tags": ["B", "O"]}
_ROW["numbers"] = [0.5, -2.0]
ROWS = {"train": [_ROW, {**_ROW, "text": "bad", "label": "no"}]}
"""Rows in memory with the columns of all task types; components that do not read `rows` ignore them."""

_STREAMED = 200  # the most examples of each split that are compared with those of its stream


def _create(subject: Subject) -> Data:
    data: Data = subject.create()
    data.rows = ROWS
    return data


def _columns(subject: Subject, task: str) -> tuple[Column, ...]:
    return with_kinds(TYPES[task], subject.registry)


def _loaded(subject: Subject, task: str) -> "DatasetDict":
    """Returns the splits for a task type, if the component serves it, loaded once for all checks."""
    splits = _load(subject, task)
    if isinstance(splits, str):
        pytest.skip(splits)
    return splits


def _load(subject: Subject, task: str) -> "DatasetDict | str":
    """Returns the splits for a task type, or the message of a refusal."""

    def load() -> "DatasetDict | str":
        try:
            return _create(subject).load(_columns(subject, task))
        except (ConfigurationError, DataError) as refusal:
            return str(refusal) or described(refusal)

    return subject.once(task, load)


@contract_check()
def serves_a_type_of_task(subject: Subject) -> None:
    """It loads for one task type at least, and refuses the others with an error of Plugformer's."""
    found = [_load(subject, name) for name in TYPES]
    refusals = [*dict.fromkeys(splits for splits in found if isinstance(splits, str))]
    served = len(found) > sum(isinstance(splits, str) for splits in found)
    require.that(served, f"it serves no task type: {'; '.join(refusals)}")


@contract_check(cases=TYPES)
def examples_fit_the_task(subject: Subject, task: str) -> None:
    """Every example has what its columns hold: text that is not blank, classes, numbers, lists of text.

    Splits are train, and any of validation and names that begin with test; none is empty. Labels are classes
    (datasets.ClassLabel), the same in all splits; there are as many tags as words.
    """
    from datasets import ClassLabel

    splits, columns, classes = _loaded(subject, task), _columns(subject, task), set()
    require.that("train" in splits, f"there is no train split, only {', '.join(map(str, splits))}")
    for name, split in ((str(key), split) for key, split in splits.items()):
        known = re.fullmatch(r"train|validation|test\w*", name)
        require.that(known, f"split {name!r} is none of train, validation and names that begin with test")
        require.that(len(split) > 0, f"split {name!r} is empty")
        present = [column for column in columns if column.name in split.column_names]
        missing = [column.name for column in columns if not column.optional and column not in present]
        require.that(not missing, f"split {name!r} lacks the columns {missing} in {split.column_names}")
        for column in present:
            what, feature = f"the {column.name} of split {name!r}", split.features[column.name]
            values = list(split[column.name])
            if isinstance(column.kind.feature, ClassLabel):
                require.that(isinstance(feature, ClassLabel), f"{what} is {feature}, expected a ClassLabel")
                outside = set(values) - set(range(len(feature.names)))
                require.that(not outside, f"{what} has no class {outside}, only {feature.names}")
                classes.add(tuple(feature.names))
                values = feature.int2str(values)
            for number, (value, items) in enumerate(
                zip(values, split[column.along or column.name], strict=True)
            ):
                place = f"in example {number} {what} is {value!r}"
                require.that(_is_read(value, column), f"{place}, expected {column.holds}")
                fits = column.along is None or len(value) == len(items)
                require.that(fits, f"{place}, expected as many as {column.along}")
    require.that(len(classes) <= 1, f"splits have different classes: {sorted(classes)}")


def _is_read(value: Any, column: Column) -> bool:
    """Returns whether a value is what its column holds."""
    blank = value == [] or (isinstance(value, str) and not value.strip())
    with suppress(ValueError):
        return bool(column.kind.read(value) == value) and (column.kind.empty or not blank)
    return False


@contract_check(cases=TYPES)
def loading_is_repeatable(subject: Subject, task: str) -> None:
    """Another object loads the same examples in the same order, and finds no problems before it reads."""
    first, data = _loaded(subject, task), _create(subject)
    data.check_columns(_columns(subject, task))
    require.equal(list(data.problems(_columns(subject, task))), [], "what `problems` finds, though it loads,")
    second = data.load(_columns(subject, task))
    require.equal(list(second), list(first), "what splits there are, loaded again,")
    for name, split in first.items():
        for column in split.column_names:
            same = list(split[column]) == list(second[name][column])
            require.that(same, f"loaded again, the {column} column of split {name!r} is different")


@contract_check(cases=TYPES)
def a_stream_has_the_same_examples(subject: Subject, task: str) -> None:
    """Streamed, every split has the examples that load gives, and continues exactly from a saved state.

    Data may refuse to stream what they load, such as classes that nobody has named.
    """
    splits = _loaded(subject, task)
    streams, again = (_create(subject).stream(_columns(subject, task)) for _ in range(2))
    require.equal(list(streams), list(splits), "what splits there are, streamed,")
    for name, split in splits.items():
        names = [column.name for column in TYPES[task] if column.name in split.column_names]
        expected = [{name: row[name] for name in names} for row in islice(split, _STREAMED)]
        rows, half = _without_faults(streams[name], names), len(expected) // 2
        found = list(islice(rows, half))
        again[name].load_state_dict(json.loads(json.dumps(streams[name].state_dict())))
        rest = list(islice(rows, len(expected) - half))
        resumed = list(islice(_without_faults(again[name], names), len(rest)))
        require.that(found + rest == expected, f"streamed, split {name!r} has other examples than loaded")
        require.that(resumed == rest, f"split {name!r} continues with other examples from its saved state")


def _without_faults(stream: "IterableDataset", names: Sequence[str]) -> Iterator[dict[str, Any]]:
    return ({name: row[name] for name in names} for row in stream if not row.get("fault"))


@contract_check()
def version_is_repeatable(subject: Subject) -> None:
    """The version is a text, and the same in another object, after loading, and in another process."""
    version, data = _create(subject).version(), _create(subject)
    require.that(isinstance(version, str), f"the version is {version!r}, expected a text")
    for task in TYPES:
        with suppress(ConfigurationError, DataError):
            data.load(_columns(subject, task))
    require.equal(data.version(), version, "after loading, the version")
    require.equal(in_another_process(subject, _version), version, "in another process, the version")


def _version(data: Data) -> str:
    data.rows = ROWS
    return data.version()
