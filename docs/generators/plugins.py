"""The index of plugins: what `plugins.json` holds, and its tables."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from generators.markdown import code, table
from plugformer.registry import Kind

Release = Literal["oldest", "newest", "main"]
"""Versions of Plugformer: the oldest supported and the newest that are released, and what is checked out."""

RELEASES: tuple[Release, ...] = ("oldest", "newest", "main")


class Checks(TypedDict):
    """How many checks of a part ended how; `xfailed` ones fail as its manifest declares."""

    passed: int
    failed: int
    skipped: int
    xfailed: int


class Effect(TypedDict):
    """What a part changes in a study: the `difference` of the `metric`, and its interval at `level`.

    `pairs` is the number of seeds; `parameters` those of the arm for each one of the baseline; `version` is
    that of the distribution. `same_code` is false if the part has changed since.
    """

    study: str
    metric: str
    higher_is_better: bool
    difference: float | None
    low: float | None
    high: float | None
    level: float
    verdict: str
    pairs: int
    parameters: float
    version: str
    plugformer: str
    same_code: bool


class Part(TypedDict):
    """A component or anything else that a manifest names; without `effect` no study has it."""

    kind: str
    name: str
    summary: str
    source: str
    checks: dict[Release, Checks]
    effect: Effect | None


class Tried(TypedDict):
    """What the checks ran with, and when: `version` is that of the distribution."""

    plugformer: str
    version: str
    python: str
    torch: str
    date: str


class Distribution(TypedDict):
    """A row of `plugins.yaml`, and what was found where it was installed."""

    name: str
    version: str
    requires: str
    install: str
    stage: Literal["experimental", "stable", "deprecated"]
    maintainer: str
    homepage: str
    tried: dict[Release, Tried]
    parts: list[Part]


@with_config(ConfigDict(extra="forbid"))
class Index(TypedDict):
    """All of `plugins.json`."""

    format: Literal[1]
    plugins: list[Distribution]


INDEX = TypeAdapter(Index)


def read(root: Path) -> Index:
    """Returns the index of a checkout."""
    return INDEX.validate_json((root / "docs" / "plugins.json").read_bytes())


def distribution_tables(index: Index) -> str:
    """Returns where distributions come from, and with which versions of Plugformer they were checked."""
    origins, trials = [], []
    for plugin in index["plugins"]:
        name = _linked(plugin["name"], plugin["homepage"])
        install = code(f"pip install {plugin['install']}")
        origins.append((name, plugin["version"], plugin["stage"], plugin["maintainer"], install))
        trials.append((plugin["name"], *(_tried(plugin, release) for release in RELEASES)))
    origin = table(("distribution", "version", "stage", "maintainer", "install"), origins)
    return f"{origin}\n\n{table(('distribution', *RELEASES), trials)}"


def part_tables(index: Index) -> str:
    """Returns a table for each kind, in the order of kinds, with a row for each part."""
    order = [*map(str, Kind), "task", "command", "callbacks"]
    parts = [(part, plugin) for plugin in index["plugins"] for part in plugin["parts"]]
    parts.sort(key=lambda pair: (order.index(pair[0]["kind"]), pair[0]["name"], pair[1]["name"]))
    return "\n\n".join(
        _kind(kind, [*rows]) for kind, rows in groupby(parts, key=lambda pair: pair[0]["kind"])
    )


def _kind(kind: str, parts: list[tuple[Part, Distribution]]) -> str:
    measured = any(part["effect"] for part, _ in parts)
    header = ("part", "distribution", "checks", *(["effect"] if measured else []))
    rows = [
        (
            f"{_linked(code(part['name']), part['source'])}: {_LINK.sub('.', part['summary'])}",
            plugin["name"],
            _checks(part["checks"]),
            *([_effect(part["effect"])] if measured else []),
        )
        for part, plugin in parts
    ]
    return f"### {kind}\n\n{table(header, rows)}"


_LINK = re.compile(r"[:,]? https?://\S+$")
"""A link at the end of a summary: the name of the part has it."""


def _linked(text: str, link: str) -> str:
    return f"[{text}]({link})" if link else text


def _tried(plugin: Distribution, release: Release) -> str:
    if release not in plugin["tried"]:
        return "not tried"
    tried = plugin["tried"][release]
    failed = [part["name"] for part in plugin["parts"] if part["checks"].get(release, _NONE)["failed"]]
    ended = f"**{len(failed)} of {len(plugin['parts'])} parts fail**" if failed else "all pass"
    return f"{tried['plugformer']}: {ended} ({tried['date']})"


_NONE = Checks(passed=0, failed=0, skipped=0, xfailed=0)


def _checks(checks: dict[Release, Checks]) -> str:
    """Returns how checks ended; the versions of Plugformer are named if they differ."""
    texts = {release: ", ".join(_counts(checks[release])) for release in RELEASES if release in checks}
    if len(set(texts.values())) < 2:
        return next(iter(texts.values()), "not run")
    return "; ".join(f"{release}: {text}" for release, text in texts.items())


def _counts(checks: Checks) -> Iterator[str]:
    counts: dict[str, Any] = {**checks}
    if failed := counts.pop("failed"):
        yield f"**{failed} failed**"
    yield from (f"{count} {how}" for how, count in counts.items() if count)


def _effect(effect: Effect | None) -> str:
    if effect is None:
        return "not measured"
    difference, low, high = ("none" if end is None else f"{end:.3f}" for end in _interval(effect))
    outdated = "" if effect["same_code"] else f"; version {effect['version']}, and it has changed since"
    parameters = 100 * (effect["parameters"] - 1)
    size = f"; parameters {parameters:+.0f} %" if abs(parameters) >= 1 else ""
    return f"[{effect['verdict']}]({effect['study']}): {difference} [{low}, {high}]{size}{outdated}"


def _interval(effect: Effect) -> tuple[float | None, float | None, float | None]:
    return effect["difference"], effect["low"], effect["high"]
