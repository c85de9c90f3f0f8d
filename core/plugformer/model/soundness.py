"""Whether a task's components work together, asked of single parts before any data is read."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.configuration.task import Component, Task
from plugformer.decoding.pattern import compile_pattern
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import (
    Attention,
    Data,
    Head,
    HeadContext,
    Padding,
    PositionalEncoding,
    Positions,
    Scope,
    TaskType,
)
from plugformer.kinds import Kind
from plugformer.model.assembly import context
from plugformer.model.initialization import refuse_hidden_values
from plugformer.model.plan import Choice, Path, StackPlan, plan_decoder, plan_encoder
from plugformer.registry import Registry
from plugformer.registry.loading import guarded

Problem = tuple[Path, str]
"""A place in the task file, and what is wrong there."""


def check(task: Task, registry: Registry) -> list[Problem]:
    """Builds each component that a task names, then tries each attention with the encoding beside it.

    Returns:
        Every problem found: components that refuse their options or the model's sizes; if there are none,
        encodings and attentions that do not fit each other.
    """
    plans = [plan_encoder(task.model)]
    if _has_decoder(task):
        plans.append(plan_decoder(task.model))
    builds = [*_builds(task, registry), *_neural_builds(task, plans, registry), _pattern(task)]
    problems = [problem for path, build in builds if (problem := _problem(path, build)) is not None]
    return problems or [problem for plan in plans for problem in _mismatches(task, plan, registry)]


def data_problems(task: Task, registry: Registry) -> list[Problem]:
    """Returns what a task's source of examples finds wrong before it reads any, such as missing files."""
    block = task.data

    def found() -> list[Problem]:
        data: Data = registry.create(Kind.DATA, block.name, **block.options)
        return [(("data", *path), message) for path, message in data.problems(TaskType(task.type))]

    try:
        return list(guarded(f"data {block.name!r}", "looking for problems", found))
    except PlugformerError as error:
        return [(("data",), str(error))]


def _builds(task: Task, registry: Registry) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yields how to build each component that is not part of the model."""
    blocks: list[tuple[Kind, Path, Component]] = [
        (Kind.DATA, ("data",), task.data),
        (Kind.TOKENIZER, ("tokenizer", "source"), task.tokenizer.source),
        (Kind.TOKENIZER, ("tokenizer", "target"), task.tokenizer.target),
        (Kind.OPTIMIZER, ("training", "optimizer"), task.training.optimizer),
        (Kind.SCHEDULE, ("training", "schedule"), task.training.schedule),
        (Kind.DECODING, ("decoding",), task.decoding),
    ]
    blocks += [
        (Kind.METRIC, ("evaluation", "metrics", index), block)
        for index, block in enumerate(task.evaluation.metrics)
    ]
    for kind, path, block in blocks:
        yield path, partial(registry.create, kind, block.name, **block.options)


def _pattern(task: Task) -> tuple[Path, Callable[[], object]]:
    """Returns how to read the pattern of outputs, if there is one; tokens that spell it are not there yet."""
    return ("decoding", "pattern"), lambda: task.decoding.pattern and compile_pattern(task.decoding.pattern)


def _neural_builds(
    task: Task, plans: list[StackPlan], registry: Registry
) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yields how to build each distinct part of the model, without memory for its parameters."""
    model = context(task.model)
    choices = {
        (kind, choice.path): choice.block
        for plan in plans
        for kind, choice in _choices(plan, cross=_has_decoder(task))
    }
    for (kind, path), block in choices.items():
        yield path, _without_memory(partial(registry.create, kind, block.name, model, **block.options))
    yield ("model", "head"), lambda: _fitting_head(task, registry)


def _fitting_head(task: Task, registry: Registry) -> Head:
    """Returns the task's head.

    Raises:
        ConfigurationError: It predicts once for each position where the model needs one prediction for the
            whole sequence, or the other way round.
    """
    model, block = context(task.model), task.model.head
    head: Head = registry.create(
        Kind.HEAD, block.name, HeadContext(**vars(model), outputs=2), **block.options
    )
    hidden, real = torch.zeros(1, 3, model.width), torch.ones(1, 3, dtype=torch.bool)
    with torch.no_grad():
        scores: Tensor = guarded(f"head {block.name!r}", "scoring", lambda: head.logits(hidden, real))
    if (scores.dim() == 3) != _has_decoder(task):
        found, wanted = ("a whole sequence", "each position")[:: 1 if _has_decoder(task) else -1]
        raise ConfigurationError(
            f"head {block.name!r} predicts once for {found}, but an {task.model.architecture} model needs "
            f"a prediction for {wanted}: choose another head, or another type of task"
        )
    return head


def _has_decoder(task: Task) -> bool:
    return task.model.architecture == "encoder-decoder"


def _choices(plan: StackPlan, *, cross: bool) -> Iterator[tuple[Kind, Choice]]:
    yield Kind.POSITION, plan.position
    yield Kind.NORM, plan.norm
    if cross:
        yield Kind.POSITION, plan.cross_position
    for layer in plan.layers:
        yield Kind.ATTENTION, layer.attention
        yield Kind.FEED_FORWARD, layer.feed_forward
        yield Kind.NORM, layer.norm
        if cross:
            yield Kind.ATTENTION, layer.cross_attention


def _without_memory(build: Callable[[], object]) -> Callable[[], object]:
    """Returns the same build on a device where only shapes exist."""

    def built() -> object:
        with torch.device("meta"):
            return build()

    return built


def _problem(path: Path, build: Callable[[], object]) -> Problem | None:
    try:
        built = build()
        if isinstance(built, nn.Module):
            refuse_hidden_values(built)
    except PlugformerError as error:
        return path, str(error)
    return None


def _mismatches(task: Task, plan: StackPlan, registry: Registry) -> Iterator[Problem]:
    """Yields what is wrong between the attentions of a stack and the encodings that they are given."""
    own = {layer.attention.path: layer.attention for layer in plan.layers}
    cross = {layer.cross_attention.path: layer.cross_attention for layer in plan.layers}
    for attention in own.values():
        yield from _mismatch(task, attention, plan.position, registry, embedded=True)
    for attention in cross.values():
        yield from _mismatch(task, attention, plan.cross_position, registry, embedded=False)


def _mismatch(
    task: Task, attention: Choice, position: Choice, registry: Registry, *, embedded: bool
) -> Iterator[Problem]:
    """Lets one attention read two tokens, and compares the slots it read with those the encoding fills.

    Args:
        task: Gives the model's sizes.
        attention: The attention.
        position: The encoding that it is given.
        registry: Creates both.
        embedded: Whether the core adds positions to embeddings here; in cross-attention it does not.
    """
    model = context(task.model)
    encoding: PositionalEncoding = registry.create(
        Kind.POSITION, position.block.name, model, **position.block.options
    )
    component: Attention = registry.create(
        Kind.ATTENTION, attention.block.name, model, **attention.block.options
    )
    watched = _Watched(encoding)
    at = Positions.of(torch.ones(1, 2, dtype=torch.bool), watched, Padding.NONE)
    try:
        guarded(
            f"attention {attention.block.name!r} with position {position.block.name!r}",
            "reading two tokens",
            lambda: _read(component, at, torch.zeros(1, 2, model.width), embedded=embedded),
        )
    except PlugformerError as error:
        yield position.path, str(error)
        return
    for slot in sorted(_filled(encoding) - watched.read):
        yield (
            position.path,
            f"position {position.block.name!r} works through `{slot}`, which attention "
            f"{attention.block.name!r} never reads here: it would make no difference; choose other ones",
        )


def _read(attention: Attention, at: Positions, x: Float[Tensor, "1 2 width"], *, embedded: bool) -> None:
    """Lets an attention read tokens at some positions."""
    with torch.no_grad():
        x = at.encoding.embed(x, at) if embedded else x
        attention.attend(x, attention.project(x, at), Scope(at, at, causal=False))


def _filled(encoding: PositionalEncoding) -> set[str]:
    """Returns the slots that an encoding overrides."""
    return {
        slot
        for slot in ("embed", "rotate", "bias")
        if getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot)
    }


class _Watched(PositionalEncoding):
    """Passes everything on to an encoding and notes which slots were read."""

    def __init__(self, encoding: PositionalEncoding) -> None:
        super().__init__()
        self.encoding = encoding
        self.read: set[str] = set()

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        self.read.add("embed")
        return self.encoding.embed(x, positions)

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        self.read.add("rotate")
        return self.encoding.rotate(heads, positions)

    def bias(self, query: Positions, key: Positions) -> Float[Tensor, "#batch maps query key"] | None:
        self.read.add("bias")
        return self.encoding.bias(query, key)
