"""From the settings of a model to its specification."""

from collections.abc import Callable, Mapping

from plugformer.configuration.task import Component, LayerOverrides, ModelSettings, TrainingSettings
from plugformer.interfaces import (
    Architecture,
    EmbeddingSpec,
    LayerSpec,
    Level,
    ModelSpec,
    PartSpec,
    Stack,
    StackSpec,
)
from plugformer.kinds import Kind
from plugformer.problems import KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import label
from plugformer.registry.options import checked_options

NO_POSITION = Component(name="none")

Candidate = tuple[KeyPath, Component | None]
"""Where the settings may name a component, and the component, if they do."""

Choose = Callable[..., PartSpec]
"""Returns the part of the first candidate that is given: `choose(kind, *candidates)`."""


def model_spec(
    settings: ModelSettings,
    registry: Registry,
    architecture: Architecture,
    level: Level,
    *,
    training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
    fresh: bool = True,
) -> ModelSpec:
    """Returns the specification of a model.

    Args:
        settings: The settings of the model.
        registry: Has the model's components.
        architecture: Its architecture.
        level: What its head predicts from.
        training: Has the seed, label smoothing and gradient checkpointing.
        fresh: Whether the model needs initial values. If not, the component that draws them is left out and
            need not be installed.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong type or out of range.
        RegistryError: A component cannot be loaded.
    """
    parts: dict[KeyPath, PartSpec] = {}

    def choose(kind: Kind, *candidates: Candidate) -> PartSpec:
        origin, block = next((path, block) for path, block in candidates if block is not None)
        if origin not in parts:
            component, name = registry.load(kind, block.name), label(registry.find(kind, block.name))
            parts[origin] = PartSpec(component, checked_options(component, block.options, name), name, origin)
        return parts[origin]

    initialization = ("model", "initialization"), settings.initialization
    return ModelSpec(
        architecture=architecture,
        level=level,
        stacks={
            stack.name: _stack(stack, settings, architecture.stacks, choose) for stack in architecture.stacks
        },
        head=choose(Kind.HEAD, (("model", "head"), settings.head)),
        width=settings.width,
        heads=settings.heads,
        ffn_width=settings.ffn_width,
        max_length=settings.max_length,
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        embeddings=EmbeddingSpec(**settings.embeddings.model_dump()),
        final_norm=settings.final_norm,
        label_smoothing=training.label_smoothing,
        recompute=training.gradient_checkpointing,
        initialization=choose(Kind.INITIALIZATION, initialization) if fresh else None,
        seed=training.replicate_seed,
    )


def _stack(stack: Stack, settings: ModelSettings, stacks: tuple[Stack, ...], choose: Choose) -> StackSpec:
    """Returns the specification of a stack. Settings of a layer precede those of its stack and the model."""
    path, overrides = ("model", stack.name), getattr(settings, stack.name)
    depths = {other.name: getattr(settings, other.name).layers or settings.layers for other in stacks}
    cross = settings.decoder.cross_attention if stack.cross else None
    per_layer: Mapping[int, LayerOverrides] = overrides.per_layer

    def candidates(part: str, layer: int | None = None) -> list[Candidate]:
        own = getattr(per_layer[layer], part) if layer is not None and layer in per_layer else None
        return [
            ((*path, "per_layer", layer or 0, part), own),
            ((*path, part), getattr(overrides, part)),
            (("model", part), getattr(settings, part)),
        ]

    def layer_spec(layer: int) -> LayerSpec:
        attention = candidates("attention", layer)
        sublayers = {"attention": choose(Kind.ATTENTION, *attention)}
        if cross is not None:
            keys = (*path, "cross_attention", "attention")
            sublayers["cross_attention"] = choose(Kind.ATTENTION, (keys, cross.attention), *attention)
        sublayers["feed_forward"] = choose(Kind.FEED_FORWARD, *candidates("feed_forward", layer))
        return LayerSpec(
            sublayers=sublayers,
            norm=choose(Kind.NORM, *candidates("norm", layer)),
            residual=choose(Kind.RESIDUAL, *candidates("residual", layer)),
            origin=(*path, "per_layer", layer) if layer in per_layer else (),
        )

    cross_position = None
    if cross is not None:
        keys = (*path, "cross_attention", "position")
        cross_position = choose(Kind.POSITION, (keys, cross.position or NO_POSITION))
    position = ((*path, "position"), overrides.position), (("model", "position"), settings.position)
    return StackSpec(
        name=stack.name,
        causal=stack.causal,
        layers=tuple(layer_spec(layer) for layer in range(depths[stack.name])),
        position=choose(Kind.POSITION, *position),
        norm=choose(Kind.NORM, *candidates("norm")),
        cross_position=cross_position,
        read_by=0 if stack.cross else sum(depths[other.name] for other in stacks if other.cross),
    )
