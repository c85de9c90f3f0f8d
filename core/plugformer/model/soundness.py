"""Whether a task's components work, and work together, asked of single parts before any data is read.

Each part of the model is built without memory for its parameters. One of moderate size is then built again
and run on a few tokens; of a larger one only the shapes are computed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.configuration.task import Component, Task
from plugformer.decoding.pattern import compile_pattern
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError
from plugformer.faults import cause_of
from plugformer.interfaces import (
    Attention,
    Data,
    FeedForward,
    Head,
    HeadContext,
    ModelContext,
    Norm,
    Optimizer,
    Padding,
    Place,
    PositionalEncoding,
    Positions,
    Schedule,
    Scope,
    TaskType,
)
from plugformer.kinds import Kind
from plugformer.model.assembly import context
from plugformer.model.initialization import random_stream, refuse_hidden_values
from plugformer.model.plan import Choice, Path, StackPlan, plan_decoder, plan_encoder
from plugformer.model.watching import unlike
from plugformer.registry import Registry
from plugformer.registry.loading import guarded, label
from plugformer.registry.options import options_model

Problem = tuple[Path, str]
"""A place in the task file, and what is wrong there."""

_MODERATE = 2**22
"""Numbers in a part, 16 MB of them, up to which it is built with memory."""


def check(task: Task, registry: Registry) -> list[Problem]:
    """Builds and runs each component that a task names, then each attention with the encoding beside it.

    Returns:
        Every problem found: components that refuse their options or the model's sizes, that raise something,
        or return another shape than they should; if there are none, encodings and attentions that do not fit
        each other.
    """
    plans = [plan_encoder(task.model)]
    if _has_decoder(task):
        plans.append(plan_decoder(task.model))
    builds = [*_builds(task, registry), *_neural_builds(task, plans, registry), _pattern(task)]
    with random_stream(0, "trial"):
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
        yield path, partial(_Trial(registry, kind, block).made, task.model.width)


def _pattern(task: Task) -> tuple[Path, Callable[[], object]]:
    """Returns how to read the pattern of outputs, if there is one; tokens that spell it are not there yet."""
    return ("decoding", "pattern"), lambda: task.decoding.pattern and compile_pattern(task.decoding.pattern)


def _neural_builds(
    task: Task, plans: list[StackPlan], registry: Registry
) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Yields how to build and run what the task file says of the parts of the model."""
    chosen: dict[tuple[Kind, Path], list[Choice]] = {}
    for plan in plans:
        for kind, choice in _choices(plan, cross=_has_decoder(task)):
            chosen.setdefault((kind, choice.path), []).append(choice)
    for (kind, path), choices in chosen.items():
        yield path, partial(_try_places, task, registry, kind, choices)
    model = HeadContext(**vars(context(task.model, plans[-1].top)), outputs=2)
    head = _Trial(registry, Kind.HEAD, task.model.head, model)
    yield ("model", "head"), lambda: _require_fitting(head.run(model.width), task)


def _try_places(task: Task, registry: Registry, kind: Kind, choices: list[Choice]) -> None:
    """Builds a component for each place that it is chosen for, and runs it once for each role in a stack.

    Raises:
        PlugformerError: It cannot serve a place, which the message names if it can serve others.
    """
    refused: dict[Place, PlugformerError] = {}
    roles: set[tuple[str, bool]] = set()
    for choice in choices:
        place = choice.place
        trial = _Trial(registry, kind, choice.block, context(task.model, place))
        try:
            if (place.stack, place.cross) in roles:
                trial.shaped()
            else:
                trial.run(task.model.width)
        except PlugformerError as error:
            refused[place] = error
        else:
            roles.add((place.stack, place.cross))
    for place, refusal in refused.items():
        if len(refused) == len(choices):
            raise refusal
        sentence, newline, hint = str(refusal).partition("\n")
        raise ConfigurationError(f"{sentence} ({place})" + newline + hint) from refusal


def _require_fitting(scores: Tensor, task: Task) -> None:
    """Refuses a head that predicts once for each position where one prediction is needed, or the opposite.

    Raises:
        ConfigurationError: It does.
    """
    if (scores.dim() == 3) != _has_decoder(task):
        found, wanted = ("a whole sequence", "each position")[:: 1 if _has_decoder(task) else -1]
        raise ConfigurationError(
            f"head {task.model.head.name!r} predicts once for {found}, but an {task.model.architecture} "
            f"model needs a prediction for {wanted}: choose another head, or another type of task"
        )


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


class _Trial:
    """One component, which is built and run.

    Args:
        registry: Creates it.
        kind: Its kind.
        block: Its name and options.
        model: What it is told about the model, if it is a part of one.
    """

    def __init__(self, registry: Registry, kind: Kind, block: Component, *model: Any) -> None:
        self.entry = registry.find(kind, block.name)
        self.create = partial(registry.create, kind, block.name, *model, **block.options)
        self.kind = kind

    def made(self, width: int) -> None:
        """Builds a component that is not part of the model; runs an optimizer and a schedule."""
        component = self.create()
        if self.kind is Kind.OPTIMIZER:
            self.attempt(lambda: _make_an_update(component, type(component)))
        elif self.kind is Kind.SCHEDULE:
            self.attempt(lambda: _require_factor(component, width))

    def run(self, width: int) -> Any:
        """Builds a part of the model and, unless it needs others beside it, runs it on six tokens."""
        component = self.built()
        return self.attempt(lambda: _run(component, width), component)

    def shaped(self) -> nn.Module:
        """Returns a part of the model without memory for its parameters."""
        with torch.device("meta"):
            component: nn.Module = self.create()
        guarded(label(self.entry), "listing its parameters", lambda: refuse_hidden_values(component))
        return component

    def built(self) -> Any:
        """Returns a part of the model, with memory for its parameters if they are not too many."""
        component = self.shaped()
        return self.create() if _size(component) <= _MODERATE else component

    def attempt(self, action: Callable[[], Any], *modules: nn.Module) -> Any:
        """Lets a component do something; where only shapes exist, its result may be None.

        Raises:
            PlugformerError: It fails; the message names the innermost part that did.
        """
        shapes_only = any(each.is_meta for module in modules for each in module.parameters())
        try:
            with torch.device("meta" if shapes_only else "cpu"), torch.no_grad():
                return guarded(label(self.entry), "trying it", action)
        except RegistryError as error:
            cause = error.__cause__
            if shapes_only and _needs_values(cause):
                return None
            if cause is None or (explanation := cause_of(cause)) is None:
                raise
            raise RegistryError(explanation) from error


def _size(module: nn.Module) -> int:
    return sum(each.numel() for each in (*module.parameters(), *module.buffers()))


def _needs_values(error: BaseException | None) -> bool:
    """Returns whether an operation failed because tensors have no values, only shapes."""
    return isinstance(error, NotImplementedError) or "meta" in str(error).lower()


def _run(component: nn.Module, width: int) -> Any:
    """Runs a part of the model; positions and attention are run together, later.

    Raises:
        RegistryError: It does not return what its contract says.
    """
    x, real = torch.ones(2, 3, width), torch.ones(2, 3, dtype=torch.bool)
    if isinstance(component, Head):
        scores = component.logits(x, real)
        component.loss(x, torch.zeros(scores.shape[:-1], dtype=torch.int64), real)
        return scores
    if isinstance(component, FeedForward):
        x = x.flatten(0, 1)
    if isinstance(component, FeedForward | Norm):
        _require_like(component(x), x, component)
    return None


def _require_like(output: object, given: Tensor, component: nn.Module, method: str = "") -> Any:
    """Returns an output that has the shape of an input.

    Raises:
        RegistryError: It has not.
    """
    if problem := unlike(output, given):
        where = f"{type(component).__module__}:{type(component).__qualname__}"
        raise RegistryError(f"{where}: {f'`{method}`: ' * bool(method)}{problem}")
    return output


def _make_an_update(component: Optimizer, kind: type) -> None:
    if "lr" not in options_model(kind).model_fields:
        raise RegistryError(
            f"{kind.__module__}:{kind.__qualname__} has no option `lr`, the learning rate that the schedule "
            "multiplies\nits author must add it to the constructor"
        )
    linear = nn.Linear(2, 2)
    for parameter in linear.parameters():
        parameter.grad = torch.ones_like(parameter)
    component.build(linear.named_parameters()).step()


def _require_factor(component: Schedule, width: int) -> None:
    factor = component.factor(1, steps=100, width=width)
    if not (isinstance(factor, int | float) and isfinite(factor)):
        raise RegistryError(f"its factor of update 1 of 100 is {factor!r}, expected a finite number")


def _problem(path: Path, build: Callable[[], object]) -> Problem | None:
    try:
        build()
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
    """Lets one attention read three tokens, and compares the slots it read with those the encoding fills.

    Args:
        task: Gives the model's sizes.
        attention: The attention.
        position: The encoding that it is given.
        registry: Creates both.
        embedded: Whether the core adds positions to embeddings here; in cross-attention it does not.
    """
    told = context(task.model, attention.place)
    trial = _Trial(registry, Kind.ATTENTION, attention.block, told)
    encoding = _Trial(registry, Kind.POSITION, position.block, context(task.model, position.place)).built()
    component = trial.built()
    if _size(component) > _MODERATE or _size(encoding) > _MODERATE:
        component, encoding = component.to("meta"), encoding.to("meta")
    watched = _Watched(encoding)
    try:
        trial.attempt(lambda: _read(component, watched, told, embedded=embedded), component, encoding)
    except PlugformerError as error:  # of sizes it is the encoding that complains
        yield position.path if isinstance(error, ConfigurationError) else attention.path, str(error)
        return
    for slot in sorted(_filled(encoding) - watched.read):
        yield (
            position.path,
            f"position {position.block.name!r} works through `{slot}`, which attention "
            f"{attention.block.name!r} never reads here: it would make no difference; choose other ones",
        )


def _read(attention: Attention, encoding: PositionalEncoding, model: ModelContext, *, embedded: bool) -> None:
    """Lets an attention read three tokens of two sequences."""
    at = Positions.of(torch.ones(2, 3, dtype=torch.bool), encoding, Padding.NONE)
    x = torch.ones(2, 3, model.width)
    x = encoding.embed(x, at) if embedded else x
    output = attention.attend(x, attention.project(x, at), Scope(at, at, causal=model.place.causal))
    _require_like(output, x, attention)


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
        embedded: Tensor = _require_like(self.encoding.embed(x, positions), x, self.encoding, "embed")
        return embedded

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        self.read.add("rotate")
        rotated: Tensor = _require_like(
            self.encoding.rotate(heads, positions), heads, self.encoding, "rotate"
        )
        return rotated

    def bias(self, query: Positions, key: Positions) -> Float[Tensor, "#batch maps query key"] | None:
        self.read.add("bias")
        return self.encoding.bias(query, key)
