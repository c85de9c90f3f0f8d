"""The arms of a study: which values of the factors each has, and what that changes in the task."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import yaml

from plugformer.configuration import Mapping, Node, Origin, nested, plain
from plugformer_ablation.declaration import Declared

BASELINE = "baseline"


@dataclass(frozen=True)
class Change:
    """A value that is put somewhere into a task.

    Attributes:
        path: Dotted keys.
        node: The value, with its place.
        origin: Where the path was written.
        name: What the study calls the value; empty if it does not.
    """

    path: str
    node: Node
    origin: Origin
    name: str = ""

    @property
    def label(self) -> str:
        """The value's name, or the value, short: `gqa(kv_heads=2)`."""
        return self.name or label(plain(self.node))

    def layer(self) -> Mapping:
        """Returns the change as a task's layer."""
        return nested(self.path, self.node, self.origin)


@dataclass(frozen=True)
class Arm:
    """One configuration that a study compares.

    Attributes:
        name: `baseline`, or the values that are not the baseline's.
        changes: One for each factor, by its name.
    """

    name: str
    changes: dict[str, Change]


def arms_of(declared: Declared) -> list[Arm]:
    """Returns the arms of a study; the first is the baseline, which all others are compared with."""
    values = _values(declared)
    baseline = {name: choices[0] for name, choices in values.items()}
    return [_arm(changes, baseline) for changes in _designed(values, declared.study.design)]


def tunings_of(declared: Declared) -> list[dict[str, Change]]:
    """Returns what tuning tries in each arm, by path: every combination; one that changes nothing if none."""
    paths = declared.study.tune
    values = [
        [
            Change(path, declared.node(("tune", path, number)), declared.place("tune", path))
            for number in range(len(tried))
        ]
        for path, tried in paths.items()
    ]
    return [dict(zip(paths, each, strict=True)) for each in product(*values)]


def common_changes(declared: Declared) -> list[Change]:
    """Returns what is changed in all arms, shorter paths first, so that longer ones go into them."""
    changes = [
        Change(path, declared.node(("set", path)), declared.place("set", path))
        for path in declared.study.changes
    ]
    return sorted(changes, key=lambda change: change.path.count("."))


def _values(declared: Declared) -> dict[str, list[Change]]:
    return {
        name: [
            Change(
                factor.path,
                declared.node(("factors", name, "values", key)),
                declared.node(("factors", name, "path")).origin,
                key if isinstance(key, str) else "",
            )
            for key in factor.keys
        ]
        for name, factor in declared.study.factors.items()
    }


def _designed(values: dict[str, list[Change]], design: str) -> Iterator[dict[str, Change]]:
    if design == "grid":
        yield from (dict(zip(values, each, strict=True)) for each in product(*values.values()))
        return
    baseline = {name: choices[0] for name, choices in values.items()}
    yield baseline
    for name, choices in values.items():
        yield from ({**baseline, name: change} for change in choices[1:])


def _arm(changes: dict[str, Change], baseline: dict[str, Change]) -> Arm:
    others = [f"{name}={change.label}" for name, change in changes.items() if change is not baseline[name]]
    return Arm(", ".join(others) or BASELINE, changes)


def label(value: Any) -> str:
    """Returns a value in a few characters, as a table shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = [f"{key}={label(item)}" for key, item in value.items() if key != "name"]
        return f"{value['name']}({', '.join(options)})" if options else str(value["name"])
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
