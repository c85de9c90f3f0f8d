"""The first pass over a merged task: its structure, its names and its contradictions, nothing imported."""

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from plugformer.configuration.blocks import blocks
from plugformer.configuration.consistency import contradictions
from plugformer.configuration.resolved import origin_of
from plugformer.configuration.task import Settings, Task
from plugformer.documents import Mapping, plain
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.explanations import explain
from plugformer.kinds import Kind
from plugformer.problems import Problem, report
from plugformer.registry import Registry

S = TypeVar("S", bound=Settings)


def check_structure(tree: Mapping, registry: Registry, kinds: Container[str] = tuple(Kind)) -> Task:
    """Returns the task that a merged tree describes.

    Args:
        tree: The merged layers.
        registry: Where names are looked up.
        kinds: Those of the components that must be known.

    Raises:
        ConfigurationError: Keys are unknown or missing, values of the wrong type or out of range, components
            unknown, settings contradict each other; every problem with its place.
    """
    problems: list[Problem] = list(_unknown_names(tree, registry, kinds))
    written = plain(tree)
    try:
        task = Task.model_validate(written)
    except ValidationError as error:
        found = explain(error, Task, written, also=("extends",))
        problems += [located(problem, tree) for problem in found]
    else:
        problems += [Problem(origin_of(tree, path), path, message) for path, message in contradictions(task)]
        if not problems:
            return task
    raise ConfigurationError(report(problems))


def check_settings(tree: Mapping, model: type[S]) -> S:
    """Returns the settings that a document describes.

    Args:
        tree: The document.
        model: Its form, derived from `Settings`.

    Raises:
        ConfigurationError: Keys are unknown or missing, values of the wrong type or out of range; every
            problem with its place.
    """
    written = plain(tree)
    try:
        return model.model_validate(written)
    except ValidationError as error:
        problems = [located(problem, tree) for problem in explain(error, model, written)]
        raise ConfigurationError(report(problems)) from None


def located(problem: Problem, tree: Mapping) -> Problem:
    """Returns the problem with the place of the value, or of the key, that it is about."""
    return replace(problem, origin=origin_of(tree, problem.path, key=problem.at_key))


def _unknown_names(tree: Mapping, registry: Registry, kinds: Container[str]) -> Iterator[Problem]:
    for block in blocks(tree):
        if block.name is not None and block.kind in kinds:
            try:
                registry.find(block.kind, str(block.name.value))
            except RegistryError as error:
                message, _, hint = str(error).partition("\n")
                yield Problem(origin_of(tree, block.name_path), block.name_path, message, hint)
