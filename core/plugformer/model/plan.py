"""The plan of a model: for every place in it the component chosen, and where the settings say so."""

from dataclasses import dataclass, replace

from plugformer.configuration.task import Component, LayerOverrides, Model, StackOverrides
from plugformer.interfaces import Place

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Choice:
    """A component for one place in the model.

    Attributes:
        path: The keys that lead to its block in the task file.
        block: Its name and options.
        place: Where it is to stand.
    """

    path: Path
    block: Component
    place: Place


@dataclass(frozen=True)
class LayerPlan:
    """The components of one layer; an encoder's has no cross-attention."""

    attention: Choice
    cross_attention: Choice
    feed_forward: Choice
    norm: Choice


@dataclass(frozen=True)
class StackPlan:
    """The components of the encoder or the decoder.

    Attributes:
        position: The encoding of self-attention.
        cross_position: The encoding of cross-attention.
        layers: From the first to the last.
        norm: The final norm.
        top: Above the last layer, where a head stands.
    """

    position: Choice
    cross_position: Choice
    layers: tuple[LayerPlan, ...]
    norm: Choice
    top: Place


NO_POSITION = Component(name="none")


def plan_encoder(settings: Model) -> StackPlan:
    """Returns the plan of the encoder."""
    return _plan(settings, "encoder", settings.encoder, None, NO_POSITION, causal=False)


def plan_decoder(settings: Model) -> StackPlan:
    """Returns the plan of the decoder; cross-attention has no positions unless the task says so."""
    cross = settings.decoder.cross_attention
    position = cross.position or NO_POSITION
    return _plan(settings, "decoder", settings.decoder, cross.attention, position, causal=True)


def _plan(
    settings: Model,
    name: str,
    stack: StackOverrides,
    cross: Component | None,
    cross_position: Component,
    *,
    causal: bool,
) -> StackPlan:
    path = ("model", name)
    bottom = Place(stack=name, layers=stack.layers or settings.layers, causal=causal)
    top = replace(bottom, layer=bottom.layers)

    def choose(part: str, layer: LayerOverrides, place: Place) -> Choice:
        return _first(
            place,
            ((*path, "per_layer", place.layer, part), getattr(layer, part)),
            ((*path, part), getattr(stack, part)),
            (("model", part), getattr(settings, part)),
        )

    def layer_plan(index: int) -> LayerPlan:
        layer, place = stack.per_layer.get(index, LayerOverrides()), replace(bottom, layer=index)
        own = choose("attention", layer, place)
        return LayerPlan(
            attention=own,
            cross_attention=_first(
                _crossing(place), ((*path, "cross_attention", "attention"), cross), (own.path, own.block)
            ),
            feed_forward=choose("feed_forward", layer, place),
            norm=choose("norm", layer, place),
        )

    return StackPlan(
        position=_first(
            bottom, ((*path, "position"), stack.position), (("model", "position"), settings.position)
        ),
        cross_position=Choice((*path, "cross_attention", "position"), cross_position, _crossing(bottom)),
        layers=tuple(layer_plan(index) for index in range(bottom.layers)),
        norm=choose("norm", LayerOverrides(), top),
        top=top,
    )


def _crossing(place: Place) -> Place:
    """Returns the place of what reads another stack from here."""
    return replace(place, causal=False, cross=True)


def _first(place: Place, *candidates: tuple[Path, Component | None]) -> Choice:
    """Returns the most specific block that is given."""
    return next(Choice(path, block, place) for path, block in candidates if block is not None)
