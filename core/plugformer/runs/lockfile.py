"""The lockfile of a run: what the run was made of, and whether the installed components still fit it."""

import hashlib
import json
import platform
import re
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import plugformer
from plugformer.configuration import Task
from plugformer.configuration.overrides import Changes, merge_layers, merged, read_changes, read_overrides
from plugformer.configuration.resolving import refuse_references, resolve
from plugformer.configuration.structure import components as named_components
from plugformer.configuration.structure import kind_at
from plugformer.data.files import files_version
from plugformer.errors import ConfigurationError, RunError
from plugformer.experiment import NO_POSITION, Experiment
from plugformer.registry import Kind, Registry
from plugformer.registry.catalog import SESSION
from plugformer.registry.discovery import LOCAL, normalized
from plugformer.registry.source import BLOCKS, code_hash, component_lock
from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import RESTORE, read_file
from plugformer.validation import unfit_decoding, unfit_metrics
from plugformer.yaml_reader import read_file as read_yaml
from plugformer.yaml_tree import EMPTY, Key, Problem, Tree, dotted, report

LIBRARIES = ("datasets", "numpy", "pyarrow", "safetensors", "tokenizers")
"""Libraries besides torch that compute; `environment` notes their versions."""

AFTER_TRAINING = (("data",), ("decoding",), ("evaluation",))
"""Settings of a run that can change when it has been trained."""

DURATION = (("training", "epochs"), ("training", "steps"), ("training", "early_stopping"))
"""Settings of a run that can change when it is resumed."""

TRAINING = {Kind.INITIALIZATION, Kind.PARAMETRIZATION, Kind.OPTIMIZER, Kind.SCHEDULE}
ANSWERING = frozenset(Kind) - TRAINING - {Kind.DATA, Kind.CALLBACK, Kind.METRIC, Kind.BASELINE}
"""Kinds of the components that a trained model needs for its answers."""


def make_lockfile(experiment: Experiment, data: Mapping[str, str]) -> dict[str, Any]:
    """Returns the lockfile of an experiment, with a fingerprint of each split of its data.

    Installed hooks are not in it, because they do not change the result.
    """
    return {
        "versions": {
            "plugformer": plugformer.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        },
        "components": {
            f"{kind}/{name}": component_lock(experiment.registry.find(kind, name))
            for kind, name in sorted(components(experiment.task))
        },
        "data": data,
    }


def provenance(experiment: Experiment, data: Mapping[str, str]) -> dict[str, Any]:
    """Returns everything except the task that the result of a training depends on.

    That is the lockfile with `other_runs`, and a hash of the `code` of the core and the components' packages.
    """
    entries = [experiment.registry.find(kind, name) for kind, name in sorted(components(experiment.task))]
    code = code_hash(entries, plugformer.__name__, BLOCKS)
    return {**make_lockfile(experiment, data), **other_runs(experiment.task), "code": code}


def file_hashes(directory: RunDirectory) -> dict[str, str]:
    """Returns a SHA-256 of each JSON file that answers depend on: vocabularies, what the task type learned.

    The parameters have a checksum of their own.
    """
    files = [directory.learned, *sorted(directory.path.glob("tokenizer-*.json"))]
    return {file.name: hashlib.sha256(read_file(file)).hexdigest() for file in files}


def refuse_other_files(directory: RunDirectory) -> None:
    """Raises RunError if a file that answers depend on is missing, or not the one of the training."""
    for name, expected in directory.read_lockfile().get("files", {}).items():
        file = directory.path / name
        if hashlib.sha256(read_file(file)).hexdigest() != expected:
            raise RunError(f"{file} is damaged: it is not the file that the run was trained with; {RESTORE}")


def task_hashes(directory: RunDirectory) -> dict[str, str]:
    """Returns a SHA-256 of each part of a run's task that cannot be changed after the training.

    Neither initial values count nor the run that the tokenizers come from. Of a text only what follows the
    last slash counts, because a published run names files without their folders.
    """
    tree, hashes = read_yaml(directory.task, str(directory.task)), {}
    for name in ("type", "model", "tokenizer"):
        part = tree.get((name,))
        if isinstance(part, dict):
            part = {key: value for key, value in part.items() if key not in ("initialization", "run")}
        text = json.dumps(part, sort_keys=True, ensure_ascii=False)
        hashes[name] = hashlib.sha256(re.sub('"[^"]*/', '"', text).encode()).hexdigest()
    return hashes


def _refuse_other_task(directory: RunDirectory) -> None:
    before, now = directory.read_lockfile().get("task", {}), task_hashes(directory)
    if changed := [key for key in before if before[key] != now.get(key)]:
        words = f"{' and '.join(changed)}: edited since the parameters were trained with other settings"
        new = f"train a new run with these: `plugformer train {directory.task} --out DIR`"
        raise RunError(f"{directory.task}: {words}; restore the file, or {new}")


def other_runs(task: Task) -> dict[str, Any]:
    """Returns `other_runs`, the lockfile's record of the runs that a resolved task names, with checksums."""
    records: dict[str, Any] = {}
    for value in (value for hook in task.training.callbacks for value in hook.options.values()):
        if isinstance(value, str | Path) and (model := RunDirectory(Path(value)).model).is_file():
            records.setdefault("models", {})[str(value)] = files_version([model])
    if (run := task.tokenizer.run) is not None:
        files = sorted(Path(run).glob("tokenizer-*.json"))
        records["tokenizers"] = {"run": run, **{file.stem: files_version([file]) for file in files}}
    return {"other_runs": records} if records else {}


def environment(device: torch.device, processes: int, precision: str) -> dict[str, Any]:
    """Returns a description of the machine, for people; nothing is compared with it."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "precision": precision,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
    }


def components(task: Task) -> set[tuple[Kind, str]]:
    """Returns kind and name of every component that a task uses."""
    found = {(kind_at(path), part.name) for path, part in named_components(task) if part.name}
    if task.model.decoder.cross_attention.position is None:
        found.add((Kind.POSITION, NO_POSITION.name))
    if task.decoding.output_constraint is not None:
        found.add((Kind.CONSTRAINT, task.decoding.output_constraint.name))
    return found


def refuse_changes(old: Mapping[str, Any], new: Mapping[str, Any], *, allow: bool = False) -> list[str]:
    """Compares a run's lockfile with that of the installed components and the present data.

    `allow` accepts changed components. Changed data are never accepted: a position in them would mean other
    examples.

    Returns:
        The accepted changes, one line each.

    Raises:
        RunError: A component or the data changed since the run began.
    """
    parts = _component_changes(old["components"], new["components"])
    before, now = old["data"], new["data"]
    data = [
        f"{split}: {before.get(split, 'nothing')[:12]} -> {now.get(split, 'nothing')[:12]}"
        for split in sorted(before.keys() | now.keys())
        if before.get(split) != now.get(split)
    ]
    if not data and (allow or not parts):
        return parts
    lines = ["components or data have changed since the run began:", *(f"  {line}" for line in parts + data)]
    also = "" if data else "; --allow-changes resumes with the changed components"
    raise RunError("\n".join([*lines, f"restore them to resume exactly, or start a new run{also}"]))


def changed_components(
    directory: RunDirectory, experiment: Experiment, kinds: Collection[Kind] = ANSWERING
) -> list[str]:
    """Returns how the components of some kinds differ from those that a run was trained with, a line each."""
    locked = directory.read_lockfile()["components"]
    names = {f"{kind}/{name}": (kind, name) for kind, name in components(experiment.task) if kind in kinds}
    before = {path: locked[path] for path in names if path in locked}
    find = experiment.registry.find
    return _component_changes(before, {path: component_lock(find(*names[path])) for path in before})


def _component_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the differences of components. Another version with the same code is a line for all of them."""
    versions, others = set(), []
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path), now.get(path)
        if old and new and old["source"] == new["source"]:
            versions.add((_distribution(old), _distribution(new)))
        else:
            others.append(f"{path}: {_with_hash(old)} -> {_with_hash(new)}{_changed_files(old, new)}")
    return [*(f"{old} -> {new}" for old, new in sorted(versions) if old != new), *others]


def _distribution(component: Mapping[str, Any]) -> str:
    return f"{component['distribution']} {component['version']}".rstrip()


def _with_hash(component: Mapping[str, Any] | None) -> str:
    return f"{_distribution(component)} ({component['source'][:12]})" if component else "nothing"


def _changed_files(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    """Returns the names of the files of a component that have changed, after a colon."""
    if not (before and now and "files" in before):
        return ""
    pairs = before["files"].items() ^ now.get("files", {}).items()
    return f": {', '.join(sorted({name for name, _ in pairs}))}" if pairs else ""


def check_overrides(
    overrides: Changes, allowed: Sequence[tuple[Key, ...]], registry: Registry
) -> tuple[Tree, Registry]:
    """Returns settings for a run if they are of the allowed keys: AFTER_TRAINING or DURATION.

    The returned registry has the classes in them.

    Raises:
        ConfigurationError: A setting has another key; the parameters were trained with the run's own value.
    """
    words = f"cannot be changed here, only {' or '.join(map(dotted, allowed))}"
    trees, registry = read_changes(overrides, registry)
    tree = merge_layers(trees)
    problems = [
        Problem(origin, path, words, "train a new run to change it")
        for path, (origin, _) in tree.places.items()
        if not isinstance(tree.get(path), dict) and path[: len(allowed[0])] not in allowed
    ]
    if problems:
        raise ConfigurationError(report(problems))
    return tree, registry


def resolve_run(
    directory: RunDirectory,
    registry: Registry,
    overrides: Tree = EMPTY,
    kinds: Collection[Kind] = tuple(Kind),
    rows: Mapping[str, Any] | None = None,
) -> Experiment:
    """Returns the experiment of a run, with its components imported.

    Args:
        directory: The run.
        registry: The installed components.
        overrides: Settings that `check_overrides` has accepted.
        kinds: Kinds of the components that are needed, besides overridden ones. Others need not be installed.
        rows: Examples in memory, by split.

    Raises:
        RunError: A component of the run is not installed; or a part of the task that it was trained with was
            edited; or the task names a manifest or another task, which no run does: a directory cannot ask
            for imports.
        ConfigurationError: The task cannot be used for another reason: an override does not fit its answers.
    """
    tree = read_yaml(directory.task, str(directory.task))
    refuse_references(tree, directory.task)
    locked = directory.read_lockfile()["components"]
    registry = registry.preferring({path: record["distribution"] for path, record in locked.items()})
    kinds, last = set(kinds), overrides
    if "data" in last.value:
        kinds.add(Kind.DATA)
    if "evaluation" in last.value:
        kinds.add(Kind.METRIC)
        # Training is over: the monitored metric need not be among the metrics any more.
        last = merged(last, read_overrides(["training.monitor=loss"]))
    resolved = resolve(tree, [last], registry, kinds=())
    require_installed(directory, resolved.task, registry, kinds)
    _refuse_other_task(directory)
    experiment = Experiment.from_resolved(resolved, kinds, rows)
    findings = list(unfit_decoding(experiment)) if "decoding" in last.value else []
    if "evaluation" in last.value:
        findings += unfit_metrics(experiment)
    return experiment.raise_for(findings)


def require_installed(
    directory: RunDirectory, task: Task, registry: Registry, kinds: Collection[Kind]
) -> None:
    """Raises RunError if a component of some kinds is not installed that a run, or a change of it, needs."""
    locked = directory.read_lockfile()["components"]
    missing = [
        f"  {path} of {record['distribution']} {record['version']}".rstrip()
        for kind, name in sorted(components(task))
        if kind in kinds
        and (record := locked.get(path := f"{kind}/{name}"))
        and not _is_offered(registry, kind, name, record["distribution"])
    ]
    if missing:
        advice = "install them, or name the run's local manifest with --registry FILE"
        if any(f" of {SESSION}" in line for line in missing):
            advice = "pass the classes of that session again: components={KIND: {NAME: CLASS}}"
        lines = [f"{directory.path} needs components that are not installed:", *missing, advice]
        raise RunError("\n".join(lines))


def _is_offered(registry: Registry, kind: Kind, name: str, distribution: str) -> bool:
    """Returns whether a distribution in a lockfile offers a component; local ones may be installed by now."""
    bare = name.rpartition(":")[2]
    owners = {normalized(entry.distribution) for entry in registry.entries(kind) if entry.name == bare}
    return bool(owners if distribution == LOCAL else owners & {normalized(distribution), LOCAL})
