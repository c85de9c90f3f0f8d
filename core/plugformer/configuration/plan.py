"""The plan of a model: for every place in it the component chosen, and where the settings say so."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plugformer.configuration.task import (
    Component,
    CrossAttention,
    LayerOverrides,
    ModelSettings,
    StackOverrides,
)
from plugformer.interfaces import LayerContext, Stack
from plugformer.kinds import Kind
from plugformer.problems import KeyPath


@dataclass(frozen=True)
class Choice:
    """A component for one place in the model.

    Attributes:
        kind: Its kind.
        path: The keys that lead to its block in the task file.
        block: Its name and options.
        place: Where it is to stand.
    """

    kind: Kind
    path: KeyPath
    block: Component
    place: LayerContext


@dataclass(frozen=True)
class LayerPlan:
    """The components of one layer.

    Attributes:
        sublayers: By name, from below; one that reads no other stack has no `cross_attention`.
        norm: Of the sublayers.
        residual: Joins them.
    """

    sublayers: dict[str, Choice]
    norm: Choice
    residual: Choice


@dataclass(frozen=True)
class StackPlan:
    """The components of the encoder or the decoder.

    Attributes:
        position: The encoding of self-attention.
        cross_position: The encoding of cross-attention, if it reads another stack.
        layers: From the first to the last.
        norm: The final norm.
        top: Above the last layer, where a head stands.
    """

    position: Choice
    cross_position: Choice | None
    layers: tuple[LayerPlan, ...]
    norm: Choice
    top: LayerContext


NO_POSITION = Component(name="none")


def plan_stacks(settings: ModelSettings, stacks: Sequence[Stack]) -> dict[str, StackPlan]:
    """Returns the plans of an architecture's stacks, by name."""
    sizes = {stack.name: getattr(settings, stack.name).layers or settings.layers for stack in stacks}
    readers = sum(sizes[stack.name] for stack in stacks if stack.cross)
    plans: dict[str, StackPlan] = {}
    for stack in stacks:
        place = LayerContext(
            stack=stack.name,
            layers=sizes[stack.name],
            causal=stack.causal,
            read_by=0 if stack.cross else readers,
        )
        cross = settings.decoder.cross_attention if stack.cross else None
        plans[stack.name] = _plan(settings, getattr(settings, stack.name), place, cross)
    return plans


def _plan(
    settings: ModelSettings, stack: StackOverrides, bottom: LayerContext, cross: CrossAttention | None
) -> StackPlan:
    """Returns the plan of a stack.

    Args:
        settings: Of the model.
        stack: Of the stack.
        bottom: Where the stack begins.
        cross: How the stack reads another one, if it does.
    """
    path = ("model", bottom.stack)
    top = replace(bottom, layer=bottom.layers)

    def choose(part: str, layer: LayerOverrides, place: LayerContext) -> Choice:
        return _first(
            Kind(part),
            place,
            ((*path, "per_layer", place.layer, part), getattr(layer, part)),
            ((*path, part), getattr(stack, part)),
            (("model", part), getattr(settings, part)),
        )

    def layer_plan(index: int) -> LayerPlan:
        layer, place = stack.per_layer.get(index, LayerOverrides()), replace(bottom, layer=index)
        own = choose("attention", layer, place)
        sublayers = {"attention": own}
        if cross is not None:
            chosen = ((*path, "cross_attention", "attention"), cross.attention)
            sublayers["cross_attention"] = _first(
                Kind.ATTENTION, _crossing(place), chosen, (own.path, own.block)
            )
        sublayers["feed_forward"] = choose("feed_forward", layer, place)
        return LayerPlan(sublayers, choose("norm", layer, place), choose("residual", layer, place))

    cross_position = None
    if cross is not None:
        block, keys = cross.position or NO_POSITION, (*path, "cross_attention", "position")
        cross_position = Choice(Kind.POSITION, keys, block, _crossing(bottom))
    own, general = ((*path, "position"), stack.position), (("model", "position"), settings.position)
    return StackPlan(
        position=_first(Kind.POSITION, bottom, own, general),
        cross_position=cross_position,
        layers=tuple(layer_plan(index) for index in range(bottom.layers)),
        norm=choose("norm", LayerOverrides(), top),
        top=top,
    )


def _crossing(place: LayerContext) -> LayerContext:
    """Returns the place of what reads another stack from here."""
    return replace(place, causal=False, cross=True)


def _first(kind: Kind, place: LayerContext, *candidates: tuple[KeyPath, Component | None]) -> Choice:
    """Returns the most specific block that is given."""
    return next(Choice(kind, path, block, place) for path, block in candidates if block is not None)
