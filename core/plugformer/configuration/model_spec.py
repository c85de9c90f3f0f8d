"""From the settings of a model to its specification."""

from collections.abc import Mapping

from plugformer.configuration.plan import Choice, StackPlan, plan_stacks
from plugformer.configuration.task import Component, ModelSettings, Task, TrainingSettings
from plugformer.interfaces import (
    Architecture,
    EmbeddingSpec,
    LayerSpec,
    Level,
    ModelSpec,
    PartSpec,
    StackSpec,
    TaskType,
)
from plugformer.kinds import Kind
from plugformer.problems import KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import label
from plugformer.registry.options import checked_options


def task_model_spec(task: Task, registry: Registry, *, fresh: bool = True) -> ModelSpec:
    """Returns the specification of a task's model, with an architecture of its own.

    Args:
        task: The task, resolved.
        registry: Has the task's components.
        fresh: Whether the model needs initial values.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong type or out of range.
        RegistryError: A component cannot be loaded.
    """
    chosen = task.model.architecture
    architecture: Architecture = registry.create(Kind.ARCHITECTURE, chosen.name, **chosen.options)
    task_type: TaskType = registry.create(Kind.TASK_TYPE, task.type.name, **task.type.options)
    return model_spec(
        task.model, registry, architecture, task_type.level, training=task.training, fresh=fresh
    )


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
    parts = _Parts(registry)
    initialization = ("model", "initialization")
    return ModelSpec(
        architecture=architecture,
        level=level,
        stacks={
            name: _stack(plan, settings, parts)
            for name, plan in plan_stacks(settings, architecture.stacks).items()
        },
        head=parts.get(Kind.HEAD, settings.head, ("model", "head")),
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
        initialization=parts.get(Kind.INITIALIZATION, settings.initialization, initialization)
        if fresh
        else None,
        seed=training.replicate_seed,
    )


class _Parts:
    """Makes one PartSpec for each component's settings."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._by_origin: dict[KeyPath, PartSpec] = {}

    def get(self, kind: Kind, block: Component, origin: KeyPath) -> PartSpec:
        if origin not in self._by_origin:
            component = self._registry.load(kind, block.name)
            name = label(self._registry.find(kind, block.name))
            options = checked_options(component, block.options, name)
            self._by_origin[origin] = PartSpec(component, options, name, origin)
        return self._by_origin[origin]

    def of(self, choice: Choice) -> PartSpec:
        return self.get(choice.kind, choice.block, choice.path)


def _stack(plan: StackPlan, settings: ModelSettings, parts: _Parts) -> StackSpec:
    per_layer: Mapping[int, object] = getattr(settings, plan.top.stack).per_layer
    return StackSpec(
        name=plan.top.stack,
        causal=plan.top.causal,
        layers=tuple(
            LayerSpec(
                sublayers={name: parts.of(choice) for name, choice in layer.sublayers.items()},
                norm=parts.of(layer.norm),
                residual=parts.of(layer.residual),
                origin=("model", plan.top.stack, "per_layer", number) if number in per_layer else (),
            )
            for number, layer in enumerate(plan.layers)
        ),
        position=parts.of(plan.position),
        norm=parts.of(plan.norm),
        cross_position=None if plan.cross_position is None else parts.of(plan.cross_position),
        read_by=plan.top.read_by,
    )
