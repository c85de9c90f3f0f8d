"""Whether a task's components work, and work together, asked of single parts before any data is read.

Each part of the model is built without memory for its parameters. One of moderate size is then built again
and run on a few tokens; of a larger one only the shapes are computed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from pathlib import Path as FilePath
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.configuration.task import Component, Task
from plugformer.creation import create_architecture, create_task_type
from plugformer.decoding.pattern import compile_pattern
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError
from plugformer.faults import cause_of
from plugformer.hooks.manager import HookManager, create_hooks
from plugformer.hooks.specification import Run
from plugformer.interfaces import (
    SPECIAL_TOKENS,
    Answer,
    Attention,
    Data,
    FeedForward,
    Head,
    HeadContext,
    Initialization,
    Level,
    ModelContext,
    Norm,
    Optimizer,
    Padding,
    ParameterContext,
    Place,
    PositionalEncoding,
    Positions,
    ResidualContext,
    Schedule,
    Scope,
    Sizes,
    Sublayer,
    TaskType,
)
from plugformer.kinds import Kind
from plugformer.model.assembly import Builder, assemble, context
from plugformer.model.compatibility import incompatibilities
from plugformer.model.initialization import random_stream, refuse_hidden_values, residual_matrices
from plugformer.model.plan import Choice, LayerPlan, Path, StackPlan, plan_stacks, state_owner
from plugformer.model.watching import unlike
from plugformer.registry import Registry
from plugformer.registry.loading import guarded, label
from plugformer.registry.options import options_model

Problem = tuple[Path, str]
"""A place in the task file, and what is wrong there."""

_NUMBERED = {Answer.TEXT, Answer.TOKENS, Answer.LABEL, Answer.TAGS}
"""Answers whose targets are numbers of outputs."""

_SIZES = Sizes(source=len(SPECIAL_TOKENS), outputs=len(SPECIAL_TOKENS))
"""Of a model that is built to see whether it can be."""

_MODERATE = 2**22
"""Numbers in a part, 16 MB of them, up to which it is built with memory."""


def check(task: Task, registry: Registry) -> list[Problem]:
    """Builds and runs each component that a task names, then each attention with the encoding beside it.

    Returns:
        Every problem found: components that do not fit what the task is, that refuse their options or the
        model's sizes, that raise something, or return another shape than they should; if there are none,
        encodings and attentions that do not fit each other.
    """
    problems = [
        problem
        for path, create in ((("type",), create_task_type), (("model", "architecture"), create_architecture))
        if (problem := _problem(path, partial(create, task, registry))) is not None
    ]
    if problems:  # of all else one depends on these two
        return problems
    problems += incompatibilities(task, registry)
    unfit = {path for path, _ in problems}
    plans = list(plan_stacks(task.model, create_architecture(task, registry).stacks).values())
    builds = [*_builds(task, registry), *_neural_builds(task, plans, registry), _pattern(task)]
    with random_stream(0, "trial"):
        found = (_problem(path, build) for path, build in builds if path not in unfit)
        problems += [problem for problem in found if problem is not None]
        for compared in (_ownerless, _mismatches, _without_a_path):
            problems = problems or [each for plan in plans for each in compared(task, plan, registry)]
        problems = problems or list(_refused_by_architecture(task, registry))
        return problems or list(_refused_by_hooks(task, registry))


def data_problems(task: Task, registry: Registry) -> list[Problem]:
    """Returns what a task's source of examples finds wrong before it reads any, such as missing files."""
    block, columns = task.data, create_task_type(task, registry).columns

    def found() -> list[Problem]:
        data: Data = registry.create(Kind.DATA, block.name, **block.options)
        if (unfit := _problem(("data", "name"), lambda: data.check_columns(columns))) is not None:
            return [unfit]
        return [(("data", *path), message) for path, message in data.problems(columns)]

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
        (Kind.INITIALIZATION, ("model", "initialization"), task.model.initialization),
    ]
    blocks += [
        (Kind.METRIC, ("evaluation", "metrics", index), block)
        for index, block in enumerate(task.evaluation.metrics)
    ]
    blocks += [
        (Kind.HOOK, ("training", "hooks", index), block) for index, block in enumerate(task.training.hooks)
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
    chosen: dict[tuple[Kind, Path], list[tuple[Choice, ModelContext]]] = {}
    for plan in plans:
        for kind, choice, told in _choices(task, plan):
            chosen.setdefault((kind, choice.path), []).append((choice, told))
    for (kind, path), choices in chosen.items():
        yield path, partial(_try_places, registry, kind, choices)
    model = HeadContext(**vars(context(task.model, plans[-1].top)), outputs=2)
    head = _Trial(registry, Kind.HEAD, task.model.head, model)
    yield ("model", "head"), partial(head.run, create_task_type(task, registry))


def _try_places(registry: Registry, kind: Kind, choices: list[tuple[Choice, ModelContext]]) -> None:
    """Builds a component for each place that it is chosen for, and runs it once for each role in a stack.

    Raises:
        PlugformerError: It cannot serve a place, which the message names if it can serve others.
    """
    refused: dict[Place, PlugformerError] = {}
    roles: set[tuple[str, bool]] = set()
    for choice, told in choices:
        place = told.place
        trial = _Trial(registry, kind, choice.block, told)
        try:
            if (place.stack, place.cross) in roles:
                trial.shaped()
            else:
                trial.run()
        except PlugformerError as error:
            refused[place] = error
        else:
            roles.add((place.stack, place.cross))
    for place, refusal in refused.items():
        if len(refused) == len(choices):
            raise refusal
        sentence, newline, hint = str(refusal).partition("\n")
        raise ConfigurationError(f"{sentence} ({place})" + newline + hint) from refusal


def _choices(task: Task, plan: StackPlan) -> Iterator[tuple[Kind, Choice, ModelContext]]:
    """Yields what is chosen for each place of a stack, and what it is told there."""

    def told(kind: Kind, choice: Choice) -> tuple[Kind, Choice, ModelContext]:
        return kind, choice, context(task.model, choice.place)

    yield told(Kind.POSITION, plan.position)
    yield told(Kind.NORM, plan.norm)
    if plan.cross_position is not None:
        yield told(Kind.POSITION, plan.cross_position)
    for layer in plan.layers:
        for name, choice in layer.sublayers.items():
            yield told(Kind.FEED_FORWARD if name == "feed_forward" else Kind.ATTENTION, choice)
        yield told(Kind.NORM, layer.norm)
        yield Kind.RESIDUAL, layer.residual, _residual_context(task, layer)


def _residual_context(task: Task, layer: LayerPlan) -> ResidualContext:
    """Returns what a residual connection is told; its norms are tried by themselves."""
    model = context(task.model, layer.residual.place)
    return ResidualContext(**vars(model), sublayers=tuple(layer.sublayers), norm=_Unchanged)


class _Unchanged(Norm):
    """Stands for any norm."""

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        return x


class _Same(Sublayer):
    """Stands for any sublayer."""

    def __call__(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return hidden

    def added(
        self, x: Float[Tensor, "batch length width"], hidden: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        return x + hidden


class _Trial:
    """One component, which is built and run.

    Args:
        registry: Creates it.
        kind: Its kind.
        block: Its name and options.
        model: What it is told about the model, if it is a part of one.
    """

    def __init__(self, registry: Registry, kind: Kind, block: Component, *model: ModelContext) -> None:
        self.entry = registry.find(kind, block.name)
        self.create = partial(registry.create, kind, block.name, *model, **block.options)
        self.kind = kind
        self.model = model

    def made(self, width: int) -> None:
        """Builds a component that is not part of the model; runs one that needs nothing else."""
        component = self.create()
        if self.kind is Kind.OPTIMIZER:
            self.attempt(lambda: _make_an_update(component, type(component)))
        elif self.kind is Kind.INITIALIZATION:
            self.attempt(lambda: _draw_values(component))
        elif self.kind is Kind.SCHEDULE:
            self.attempt(lambda: _require_factor(component, width))

    def run(self, task_type: TaskType | None = None) -> Any:
        """Builds a part of the model and, unless it needs others beside it, runs it on six tokens.

        Args:
            task_type: Says what a head is to predict.
        """
        component = self.built()
        return self.attempt(lambda: _run(component, self.model[0], task_type), component)

    def shaped(self) -> Any:
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


def _run(component: nn.Module, model: ModelContext, task_type: TaskType | None) -> Any:
    """Runs a part of the model; positions and attention are run together, later.

    Raises:
        RegistryError: It does not return what its contract says.
    """
    x, real = torch.ones(2, 3, model.width), torch.ones(2, 3, dtype=torch.bool)
    if isinstance(component, Head):
        scores = component.logits(x, real)
        if task_type is not None and task_type.answer_type in _NUMBERED:
            shape = (2,) if task_type.level is Level.SEQUENCE else (2, 3)
            component.loss(x, torch.zeros(shape, dtype=torch.int64), real)
        return scores
    if isinstance(model, ResidualContext):
        _require_like(component(x, {name: _Same() for name in model.sublayers}), x, component)
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


def _draw_values(component: Initialization) -> None:
    linear = nn.Linear(2, 2)
    for name, parameter in linear.named_parameters():
        component.draw(parameter, ParameterContext(name=name, path=name, module=linear))


def _require_factor(component: Schedule, width: int) -> None:
    factor = component.factor(1, steps=100, width=width)
    if not (isinstance(factor, int | float) and isfinite(factor)):
        raise RegistryError(f"its factor of update 1 of 100 is {factor!r}, expected a finite number")


def _refused_by_architecture(task: Task, registry: Registry) -> Iterator[Problem]:
    """Lets the architecture build its model, without memory for parameters; yields what it refuses."""
    architecture = create_architecture(task, registry)
    level = create_task_type(task, registry).level

    def build() -> None:
        with torch.device("meta"):
            architecture.build(Builder(task, architecture, registry), _SIZES, level)

    def attempt() -> None:
        try:
            guarded(f"architecture {task.model.architecture.name!r}", "building the model", build)
        except RegistryError as error:
            if not _needs_values(error.__cause__):
                raise

    if (problem := _problem(("model", "architecture"), attempt)) is not None:
        yield problem


def _refused_by_hooks(task: Task, registry: Registry) -> Iterator[Problem]:
    """Shows the task's hooks its model, without memory for its parameters; yields what they find wrong."""
    if not task.training.hooks:
        return
    with torch.device("meta"):
        model = assemble(task, _SIZES, registry)
    run = Run(FilePath(), task, model, steps=1, epoch_steps=1)
    for index, block in enumerate(task.training.hooks):

        def show(block: Component = block) -> None:
            HookManager([], lambda _: None, create_hooks([block], registry)).ask("model_built", run=run)

        if (problem := _problem(("training", "hooks", index), show)) is not None:
            yield problem


def _problem(path: Path, build: Callable[[], object]) -> Problem | None:
    try:
        build()
    except PlugformerError as error:
        return path, str(error)
    return None


def _mismatches(task: Task, plan: StackPlan, registry: Registry) -> Iterator[Problem]:
    """Yields what is wrong between the attentions of a stack and the encodings that they are given."""
    for name, position in (("attention", plan.position), ("cross_attention", plan.cross_position)):
        layers = _across(plan, name)
        for attention in {each.path: each for each in layers}.values():
            if position is not None:
                yield from _mismatch(task, attention, layers, position, registry)


def _ownerless(task: Task, plan: StackPlan, registry: Registry) -> Iterator[Problem]:
    """Yields which attentions read the state of another layer that has none for them."""
    for name in ("attention", "cross_attention"):
        layers = _across(plan, name)
        for own in layers:
            told = context(task.model, own.place)
            reads_layer = _Trial(registry, Kind.ATTENTION, own.block, told).shaped().reads_layer
            if reads_layer is not None:
                find = partial(state_owner, own, reads_layer, layers)
                if (problem := _problem(own.path, find)) is not None:
                    yield problem


def _across(plan: StackPlan, name: str) -> list[Choice]:
    """Returns one of the two attentions of every layer, as far as layers have it."""
    return [layer.sublayers[name] for layer in plan.layers if name in layer.sublayers]


def _without_a_path(task: Task, plan: StackPlan, registry: Registry) -> Iterator[Problem]:
    """Yields what is wrong between residual connections that scale initial values and their sublayers."""
    seen: set[tuple[Path, Path]] = set()
    for layer in plan.layers:
        residual = layer.residual
        told = _residual_context(task, layer)
        if _Trial(registry, Kind.RESIDUAL, residual.block, told).shaped().gain == 1:
            continue
        for name, choice in layer.sublayers.items():
            kind = Kind.FEED_FORWARD if name == "feed_forward" else Kind.ATTENTION
            part = _Trial(registry, kind, choice.block, context(task.model, choice.place)).shaped()
            if (residual.path, choice.path) not in seen and not any(residual_matrices(part).values()):
                yield (
                    residual.path,
                    f"residual {residual.block.name!r} scales the initial values of what adds to the stream, "
                    f"but {kind} {choice.block.name!r} has no matrix called {part.residual_path[-1]!r}\n"
                    "its author must name its maps in `residual_path`",
                )
            seen.add((residual.path, choice.path))


def _mismatch(
    task: Task, attention: Choice, layers: Sequence[Choice], position: Choice, registry: Registry
) -> Iterator[Problem]:
    """Lets one attention read three tokens, and compares the slots it read with those the encoding fills.

    Args:
        task: Gives the model's sizes.
        attention: The attention.
        layers: The same attention of every layer.
        position: The encoding that it is given.
        registry: Creates both.
    """
    told = context(task.model, attention.place)
    trial = _Trial(registry, Kind.ATTENTION, attention.block, told)
    encoding = _Trial(registry, Kind.POSITION, position.block, context(task.model, position.place)).built()
    owner = component = trial.built()
    if component.reads_layer is not None:
        place = state_owner(attention, component.reads_layer, layers).place
        owner = _Trial(registry, Kind.ATTENTION, attention.block, context(task.model, place)).built()
    if max(map(_size, (owner, component, encoding))) > _MODERATE:
        owner, component, encoding = (each.to("meta") for each in (owner, component, encoding))
    watched = _Watched(encoding)
    try:
        trial.attempt(lambda: _read(owner, component, watched, told), owner, component, encoding)
    except PlugformerError as error:  # of sizes it is the encoding that complains
        yield position.path if isinstance(error, ConfigurationError) else attention.path, str(error)
        return
    for slot in sorted(_filled(encoding) - watched.read):
        yield (
            position.path,
            f"position {position.block.name!r} works through `{slot}`, which attention "
            f"{attention.block.name!r} never reads here: it would make no difference; choose other ones",
        )


def _read(owner: Attention, attention: Attention, encoding: PositionalEncoding, model: ModelContext) -> None:
    """Lets an attention read three tokens of two sequences, from a state that is its own or an owner's."""
    at = Positions.of(torch.ones(2, 3, dtype=torch.bool), encoding, Padding.NONE)
    x = torch.ones(2, 3, model.width)
    x = x if model.place.cross else encoding.embed(x, at)  # in cross-attention the core adds no positions
    output = attention.attend(x, owner.project(x, at), Scope(at, at, causal=model.place.causal))
    _require_like(output, x, attention)


def _filled(encoding: PositionalEncoding) -> set[str]:
    """Returns the slots that an encoding overrides."""
    return {
        slot
        for slot in ("embed", "rotate", "bias", "content_bias")
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

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],
        query: Positions,
        key: Positions,
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        self.read.add("content_bias")
        return self.encoding.content_bias(query_heads, key_heads, query, key)
