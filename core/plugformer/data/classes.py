"""What is doubtful about the classes of a task: names that look alike, and classes without examples."""

import unicodedata
from collections.abc import Mapping, Sequence

from datasets import ClassLabel, Dataset

from plugformer.data.files import SHOWN
from plugformer.interfaces import Column, OutputType, TaskType

MANY, SELDOM = 50, 3
"""So many labels with fewer examples each are probably numbers that measure something."""

_MISSING = ("nan", "nat", "null", "<na>")
"""Values that libraries write where there is none."""


def _seen(name: str) -> str:
    """Returns a name without case, further spaces, and other ways to write the same characters."""
    return " ".join(unicodedata.normalize("NFKC", name).split()).casefold()


def look_alikes(names: Sequence[str], kind: str = "classes") -> list[str]:
    """Returns notices of names that differ only in what people hardly see; of many, the first few."""
    first: dict[str, str] = {}
    pairs = [(first.setdefault(_seen(name), name), name) for name in names]
    found = [
        f"the {kind} {one!a} and {other!a} look the same or nearly so; use one spelling"
        for one, other in pairs
        if one != other
    ]
    more = [f"{len(found) - SHOWN:,} other pairs of {kind} look alike"] if len(found) > SHOWN else []
    return [*found[:SHOWN], *more]


def doubtful_classes(
    task_type: TaskType, columns: Sequence[Column], splits: Mapping[str, Dataset]
) -> list[str]:
    """Returns notices about the names that a task's type has learned; `train` may be streamed and missing."""
    names = task_type.state
    if task_type.output_type not in (OutputType.LABEL, OutputType.LABELS, OutputType.TAGS):
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return []
    kind = "tags" if task_type.output_type is OutputType.TAGS else "classes"
    notices, used = look_alikes(names, kind), set(names)
    if missing := [name for name in names if name.casefold() in _MISSING]:
        values = ", ".join(map(repr, missing))
        notices.append(f"of the {kind}, {values} looks like a missing value; remove such rows")
    for column in columns if "train" in splits else ():
        if isinstance(column.kind.feature, ClassLabel):
            train = splits["train"]
            used = {train.features[column.name].names[number] for number in set(train[column.name])}
            if unused := [name for name in names if name not in used]:
                notices.append(f"train: no example has the class {', '.join(map(repr, unused))}")
            if len(names) >= MANY and len(train) < SELDOM * len(names):
                notices.append(
                    f"WARNING: {len(train):,} training examples have {len(names):,} different labels, such "
                    f"as {names[0]!r}, and each becomes a class; name the column with the classes in "
                    "data.columns, or choose the task type regression"
                )
    if len(used) == 1 and task_type.output_type is not OutputType.LABELS:
        notices.append(
            f"WARNING: {min(used)!r} is the only one of the {kind} in train: every answer is right; name the "
            "right column in data.columns, or add other examples"
        )
    return notices
