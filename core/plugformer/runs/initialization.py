"""Initial values, and tokenizers, that a task takes over from another run."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from plugformer.configuration.paths import tokenizer_of
from plugformer.configuration.task import InitializeFrom, Task, TokenizerSettings
from plugformer.data.files import files_version
from plugformer.data.vocabularies import Vocabularies, learned_by
from plugformer.errors import PlugformerError, nearest
from plugformer.experiment import Experiment
from plugformer.interfaces import SPECIAL_TOKENS, Model, Sizes, Tokenizer
from plugformer.model import build
from plugformer.problems import Finding
from plugformer.runs.directory import RunDirectory
from plugformer.runs.files import read_json
from plugformer.runs.vocabularies import read_learned
from plugformer.runs.weights import checksum, load_tensors, mismatches, own_tensors
from plugformer.yaml_tree import plain

EMBEDDING, HEAD = "embedding", "head"

_HERE = ("model", "initialize_from")


def part_of(name: str) -> str:
    """Returns the part that a parameter belongs to: its stack or the head, or `embedding` in any stack."""
    first, *rest = name.split(".")
    return EMBEDDING if EMBEDDING in rest[:1] else first


def misfits(experiment: Experiment) -> list[Finding]:
    """Returns mismatches with the run that a task starts from, except those of vocabularies."""
    task = experiment.task
    found = list(_other_tokenizers(task))
    settings = task.model.initialize_from
    if settings is None:
        return found
    try:
        theirs = load_tensors(RunDirectory.open(Path(settings.run)).model)
    except PlugformerError as error:
        return [*found, ((*_HERE, "run"), str(error))]
    with torch.device("meta"):
        model = build(experiment.spec, Sizes(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS)))
    return [*found, *_unfit_parts(own_tensors(model), theirs, settings, uncompared=(EMBEDDING, HEAD))]


def take_over(experiment: Experiment, model: Model, vocabularies: Vocabularies) -> dict[str, Tensor]:
    """Gives a model the values that its task takes from another run, and returns them.

    Raises:
        ConfigurationError: They do not fit the model, or stand for other tokens or classes; all problems.
        RunError: There is no such run, or it is damaged.
    """
    settings = experiment.task.model.initialize_from
    if settings is None:
        return {}
    directory = RunDirectory.open(Path(settings.run))
    theirs, own = load_tensors(directory.model), own_tensors(model)
    found = _unfit_parts(own, theirs, settings)
    experiment.raise_for([*found, *_other_vocabularies(own, settings, directory, vocabularies)])
    taken = {name: tensor for name, tensor in theirs.items() if part_of(name) in settings.parts}
    model.load_state_dict(taken, strict=False)
    return taken


def origin(task: Task, taken: Mapping[str, Tensor] | None = None) -> dict[str, Any]:
    """Returns the lock's record of the runs that a task starts from, with checksums.

    Args:
        task: Fully resolved.
        taken: The values; read if not given.

    Raises:
        RunError: There is no such run, or it is damaged.
    """
    found: dict[str, Any] = {}
    if (settings := task.model.initialize_from) is not None:
        theirs = load_tensors(RunDirectory.open(Path(settings.run)).model) if taken is None else taken
        values = {name: tensor for name, tensor in theirs.items() if part_of(name) in settings.parts}
        found["parameters"] = {**settings.model_dump(), "sha256": checksum(values)}
    if (run := task.tokenizer.run) is not None:
        files = sorted(Path(run).glob("tokenizer-*.json"))
        found["tokenizers"] = {"run": run, **{file.stem: files_version([file]) for file in files}}
    return {"other_runs": found} if found else {}


def take_again(directory: RunDirectory, model: Model) -> None:
    """Gives the model of a run the values that it has taken over, if it has taken any."""
    if directory.initial.exists():
        model.load_state_dict(load_tensors(directory.initial), strict=False)


def _unfit_parts(
    own: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
    settings: InitializeFrom,
    uncompared: Collection[str] = (),
) -> Iterator[Finding]:
    """Yields parts that the model does not have, or in which names, shapes or types differ."""
    known = sorted({part_of(name) for name in own})
    for index, part in enumerate(settings.parts):
        path = (*_HERE, "parts", index)
        if part not in known:
            words = f"the model has no part {part!r}{nearest(part, known)}\nknown: {', '.join(known)}"
            yield path, words
        elif part not in uncompared:
            mine, yours = (
                {name: each for name, each in tensors.items() if part_of(name) == part}
                for tensors in (own, theirs)
            )
            if found := mismatches(mine, yours):
                more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
                words = f"{part!r} of {settings.run} does not fit: {'; '.join(found[:3])}{more}"
                yield path, words


def _other_vocabularies(
    own: Mapping[str, Tensor], settings: InitializeFrom, directory: RunDirectory, here: Vocabularies
) -> Iterator[Finding]:
    """Yields parameters whose rows stand for other tokens or classes in the other run."""
    stacks = {name.partition(".")[0] for name in own if part_of(name) == EMBEDDING}
    for index, part in enumerate(settings.parts):
        path = (*_HERE, "parts", index)
        if part == EMBEDDING:
            sides = [
                ("target", here.target) if each == "decoder" else ("source", here.source) for each in stacks
            ]
            for side, tokenizer in sides:
                if problem := _other_tokens(directory, side, tokenizer):
                    yield path, problem
        elif part == HEAD and here.task_type.outputs is not None:
            if (theirs := read_learned(directory)) != here.learned:
                yield path, f"the outputs here are {here.learned}, those of {directory.path} {theirs}"
        elif part == HEAD and (problem := _other_tokens(directory, "target", here.target)):
            yield path, problem


def _other_tokens(directory: RunDirectory, side: str, tokenizer: Tokenizer) -> str:
    """Returns the difference of a vocabulary from the run's; empty if there is none."""
    file = learned_by(directory.path, side)
    with TemporaryDirectory() as folder:
        own = Path(folder, file.name)
        tokenizer.save(own)
        if json.loads(own.read_bytes()) == read_json(file):
            return ""
    return (
        f"the {side} vocabulary here is not that of {directory.path}, so that rows of the embedding would "
        f"stand for other tokens\ntake it over, too: `tokenizer: {{run: {directory.path}}}`"
    )


def _other_tokenizers(task: Task) -> Iterator[Finding]:
    """Yields problems with the run that tokenizers are taken from."""
    own, path = task.tokenizer, ("tokenizer", "run")
    if own.run is None:
        return
    try:
        RunDirectory.open(Path(own.run))
        theirs = TokenizerSettings.model_validate(plain(tokenizer_of(Path(own.run))))
    except (PlugformerError, ValidationError) as error:
        yield path, str(error) if isinstance(error, PlugformerError) else f"{own.run} is damaged: {error}"
        return
    if theirs.model_copy(update={"run": own.run}) != own:
        yield (
            path,
            f"the tokenizers of {own.run} have another name or other options than are written here\n"
            "leave name and options out: they come from the run",
        )
