"""The second pass: components are imported, their options checked and completed, their paths resolved."""

from collections.abc import Container
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from plugformer.configuration.blocks import Block, blocks
from plugformer.configuration.paths import resolve_paths
from plugformer.configuration.resolved import ResolvedTask
from plugformer.configuration.structure import located
from plugformer.configuration.task import Task
from plugformer.documents import Mapping, plain
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.explanations import explain
from plugformer.kinds import Kind
from plugformer.problems import Key, Problem, report
from plugformer.registry import Registry
from plugformer.registry.options import options_model


def check_components(resolved: ResolvedTask, kinds: Container[str] = tuple(Kind)) -> ResolvedTask:
    """Imports the components that a task names and checks their options.

    Args:
        resolved: The task.
        kinds: Those of the components that are needed; the others stay as they are written.

    Returns:
        The task with the defaults of all options filled in and its paths made absolute.

    Raises:
        ConfigurationError: A component cannot be imported, or an option is unknown, missing, of the wrong
            type or out of range; every problem with its place.
    """
    problems: list[Problem] = []
    complete = plain(resolved.tree)
    for block in blocks(resolved.tree):
        if block.kind not in kinds:
            continue
        options, found = _check(block, resolved)
        problems += found
        _put(complete, block.path, _plain_block(block, options))
    if problems:
        raise ConfigurationError(report(problems))
    return replace(resolved, task=Task.model_validate(complete))


def _check(block: Block, resolved: ResolvedTask) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a component's options, complete and with absolute paths, and what is wrong with them."""
    try:
        model = _model(block, resolved.registry)
        checked = model.model_validate(plain(block.options))
    except RegistryError as error:
        message, _, hint = str(error).partition("\n")
        return {}, [resolved.problem(block.name_path, message, hint)]
    except ValidationError as error:
        return {}, _problems(block, error, model, resolved)
    options, problems = resolve_paths(block.options, checked, block.path)
    complete = model.model_validate(plain(options))
    return complete.model_dump(mode="json", warnings=False), problems


def _model(block: Block, registry: Registry) -> type[BaseModel]:
    name = block.name
    if name is None:
        raise RegistryError(f"the {block.kind} has no name")
    model = options_model(registry.load(block.kind, str(name.value)))
    if taken := sorted(model.model_fields.keys() & {"name", *block.core}):
        raise RegistryError(
            f"{block.kind} {name.value!r} has an option {taken[0]!r}, which is a setting of the core there\n"
            "its author must give the option another name"
        )
    return model


def _problems(
    block: Block, error: ValidationError, model: type[BaseModel], resolved: ResolvedTask
) -> list[Problem]:
    found = explain(error, model, plain(block.options), also=("name", *block.core))
    problems = [replace(problem, path=(*block.path, *problem.path)) for problem in found]
    return [located(problem, resolved.tree) for problem in problems]


def _plain_block(block: Block, complete: dict[str, Any]) -> dict[str, Any]:
    """Returns a component's block with its core settings as written and its options complete."""
    written = plain(block.node) if isinstance(block.node, Mapping) else {}
    core = {key: written[key] for key in written if key in block.core}
    name = None if block.name is None else block.name.value
    return {"name": name, **complete, **core}


def _put(tree: Any, path: tuple[Key, ...], value: object) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value
