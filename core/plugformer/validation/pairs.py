"""Parts of a model that must fit each other, and what each is told where it stands."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from plugformer.configuration.plan import Choice, LayerPlan, StackPlan, context, state_owner
from plugformer.configuration.task import Model as Settings
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import (
    Attention,
    ModelContext,
    Padding,
    PositionalEncoding,
    Positions,
    ResidualContext,
    Scope,
)
from plugformer.kinds import Kind
from plugformer.model.initialization import residual_matrices
from plugformer.model.watching import watched_method
from plugformer.problems import Finding, KeyPath
from plugformer.registry import Registry
from plugformer.validation.trial import MODERATE, Trial, problems_of, require_like, size_of

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""What an encoding may override, and an attention read."""


def choices_of(settings: Settings, plan: StackPlan) -> Iterator[tuple[Choice, ModelContext]]:
    """Yields the component at each place of a stack, with its context."""
    crossing = [] if plan.cross_position is None else [plan.cross_position]
    for choice in (plan.position, plan.norm, *crossing):
        yield choice, context(settings, choice.place)
    for layer in plan.layers:
        for choice in (*layer.sublayers.values(), layer.norm):
            yield choice, context(settings, choice.place)
        yield layer.residual, residual_context(settings, layer)


def residual_context(settings: Settings, layer: LayerPlan) -> ResidualContext:
    """Returns the context of a residual connection, without norms, which are tried separately."""
    model = context(settings, layer.residual.place)
    return ResidualContext(**vars(model), sublayers=tuple(layer.sublayers), norm=nn.Identity)


def trial_of(settings: Settings, choice: Choice, registry: Registry) -> Trial:
    """Returns a trial of a component where it is chosen for."""
    return Trial(registry, choice.kind, choice.block, context(settings, choice.place))


def across(plan: StackPlan, name: str) -> list[Choice]:
    """Returns one of the two attentions of every layer, as far as layers have it."""
    return [layer.sublayers[name] for layer in plan.layers if name in layer.sublayers]


def mismatches(settings: Settings, plan: StackPlan, registry: Registry) -> Iterator[Finding]:
    """Yields mismatches between a stack's attentions and its positional encodings."""
    for name, position in (("attention", plan.position), ("cross_attention", plan.cross_position)):
        layers = across(plan, name)
        for attention in {each.path: each for each in layers}.values():
            if position is not None:
                yield from _mismatch(settings, attention, layers, position, registry)


def ownerless(settings: Settings, plan: StackPlan, registry: Registry) -> Iterator[Finding]:
    """Yields attentions that read the state of a layer that has none for them."""
    for name in ("attention", "cross_attention"):
        layers = across(plan, name)
        for own in layers:
            reads_layer = trial_of(settings, own, registry).shaped().reads_layer
            if reads_layer is not None:
                yield from problems_of(own.path, partial(state_owner, own, reads_layer, layers))


def without_a_path(settings: Settings, plan: StackPlan, registry: Registry) -> Iterator[Finding]:
    """Yields residual connections that scale initial values of sublayers without a residual path."""
    seen: set[tuple[KeyPath, KeyPath]] = set()
    for layer in plan.layers:
        residual = layer.residual
        told = residual_context(settings, layer)
        if Trial(registry, Kind.RESIDUAL, residual.block, told).shaped().gain == 1:
            continue
        for choice in layer.sublayers.values():
            part = trial_of(settings, choice, registry).shaped()
            if (residual.path, choice.path) not in seen and not any(residual_matrices(part).values()):
                yield (
                    residual.path,
                    f"residual {residual.block.name!r} scales the initial values of what adds to the stream, "
                    f"but {choice.kind} {choice.block.name!r} has no matrix called "
                    f"{part.residual_path[-1]!r}\nits author must name its maps in `residual_path`",
                )
            seen.add((residual.path, choice.path))


def _mismatch(
    settings: Settings, attention: Choice, layers: Sequence[Choice], position: Choice, registry: Registry
) -> Iterator[Finding]:
    """Lets one attention read three tokens, and compares the slots it read with those the encoding fills.

    Args:
        settings: Give the model's sizes.
        attention: The attention.
        layers: The same attention of every layer.
        position: The encoding that it is given.
        registry: Creates both.
    """
    told = context(settings, attention.place)
    trial = trial_of(settings, attention, registry)
    encoding = trial_of(settings, position, registry).built()
    owner = component = trial.built()
    if component.reads_layer is not None:
        owner = trial_of(settings, state_owner(attention, component.reads_layer, layers), registry).built()
    if max(map(size_of, (owner, component, encoding))) > MODERATE:
        owner, component, encoding = (each.to("meta") for each in (owner, component, encoding))
    try:
        with _noted(encoding) as read:
            trial.attempt(lambda: _read(owner, component, encoding, told), owner, component, encoding)
    except PlugformerError as error:  # of sizes it is the encoding that complains
        yield position.path if isinstance(error, ConfigurationError) else attention.path, str(error)
        return
    for slot in sorted(_filled(encoding) - read):
        yield (
            position.path,
            f"position {position.block.name!r} works through `{slot}`, which attention "
            f"{attention.block.name!r} never reads here: it would make no difference; choose other ones",
        )


def _read(owner: Attention, attention: Attention, encoding: PositionalEncoding, model: ModelContext) -> None:
    """Lets an attention read three tokens of two sequences, from a state that is its own or an owner's."""
    positions = Positions.of(torch.ones(2, 3, dtype=torch.bool), encoding, Padding.NONE)
    x = torch.ones(2, 3, model.width)
    if not model.place.cross:  # in cross-attention the core adds no positions
        x = encoding.embed(x, positions)
    scope = Scope(positions, positions, causal=model.place.causal)
    output = attention.attend(x, owner.project(x, positions), scope)
    require_like(output, x, attention)


def _filled(encoding: PositionalEncoding) -> set[str]:
    """Returns the slots that an encoding overrides."""
    return {slot for slot in _SLOTS if getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot)}


@contextmanager
def _noted(encoding: PositionalEncoding) -> Iterator[set[str]]:
    """Inside, the slots of an encoding that are read are noted; what they return must keep its shape."""
    read: set[str] = set()

    def note(slot: str, module: nn.Module, given: tuple[Any, ...], output: object) -> None:
        read.add(slot)
        if slot in ("embed", "rotate"):
            require_like(output, given[0], module, slot)

    with ExitStack() as undo:
        for slot in _SLOTS:
            undo.enter_context(watched_method(encoding, slot, slot, note))
        yield read
