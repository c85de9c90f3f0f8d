"""Assembly: from a task's `model:` settings and the registry to a model with initial values."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import nn

from plugformer.configuration.task import Model as ModelSettings
from plugformer.configuration.task import StackOverrides, Task
from plugformer.creation import create_architecture, create_task_type
from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    Architecture,
    Head,
    HeadContext,
    Model,
    ModelContext,
    NoPositions,
    Place,
    ResidualContext,
    Sizes,
)
from plugformer.kinds import Kind
from plugformer.model.decoder import Decoder
from plugformer.model.encoder import Encoder, TokenEmbedding
from plugformer.model.initialization import draw_own_values, initialize, random_stream
from plugformer.model.layer import Layer
from plugformer.model.plan import Choice, LayerPlan, StackPlan, plan_stacks, state_owner
from plugformer.registry import Registry

VECTOR_FUNCTIONS = (
    "acos",
    "asin",
    "atan",
    "cos",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "log",
    "log10",
    "log2",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
"""Those that PyTorch's builds for x86 take from Intel's MKL."""


@cache
def warm_up_mkl() -> None:
    """Calls each function on one number, once in a process.

    MKL chooses a function's kernel at its first call. Where several threads make that call at the same time,
    one of them may compute its part with another kernel, whose relative errors reach 1e-4: a training would
    not be the same as another with its seed. https://github.com/pytorch/pytorch/issues/188792
    """
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)


def assemble(task: Task, sizes: Sizes, registry: Registry, *, fresh: bool = True) -> Model:
    """Returns the model that a task describes, its initial values drawn from the task's seed and replicate.

    Args:
        task: Its settings.
        sizes: Of its vocabularies.
        registry: Creates its components.
        fresh: False if other values are put into its place: those of the task's initialization are not drawn,
            and its component need not be there.

    Raises:
        ConfigurationError: A component refuses its options or the model's sizes.
        RegistryError: A component cannot be loaded.
    """
    warm_up_mkl()
    seed = task.training.replicate_seed
    with random_stream(seed, "constructors"):  # torch's own draw values, too, which are then replaced
        architecture = create_architecture(task, registry)
        level = create_task_type(task, registry).level
        model = architecture.build(Builder(task, architecture, registry), sizes, level)
    if not fresh:
        draw_own_values(model, seed)
        return model
    block = task.model.initialization
    initialize(model, seed, registry.create(Kind.INITIALIZATION, block.name, **block.options))
    return model


def context(settings: ModelSettings, place: Place) -> ModelContext:
    """Returns what the part at a place is told."""
    return ModelContext(
        width=settings.width,
        heads=settings.heads,
        ffn_width=settings.ffn_width,
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        max_length=settings.max_length,
        place=place,
    )


class Builder:
    """Builds the parts of one model from the components that its plan names.

    Attributes:
        task: Fully resolved.
        settings: Its `model:`.
        plans: The plans of the stacks, by name.
    """

    def __init__(self, task: Task, architecture: Architecture, registry: Registry) -> None:
        self.task = task
        self.plans = plan_stacks(task.model, architecture.stacks)
        self.settings = task.model
        self.registry = registry

    def part(self, kind: Kind, choice: Choice) -> Any:
        """Returns a component; the registry has checked that it implements its kind's interface."""
        told = context(self.settings, choice.place)
        return self.registry.create(kind, choice.block.name, told, **choice.block.options)

    def embedding(self, vocabulary: int, *, tied: bool) -> TokenEmbedding:
        """Returns the embedding of one side."""
        return TokenEmbedding(
            vocabulary, self.settings.width, scaled=self.settings.embeddings.scaled, tied=tied
        )

    def encoder(self, embedding: TokenEmbedding, order: Sequence[int] | None = None) -> Encoder:
        """Returns the encoder.

        Args:
            embedding: Of its tokens.
            order: Numbers of the layers, as `model.encoder.per_layer` has them, in the order in which they
                compute. One that occurs again is the same layer, with the same parameters. If None, each of
                the task's layers once.
        """
        plan = self.plans["encoder"]
        return Encoder(
            embedding=embedding,
            position=self.part(Kind.POSITION, plan.position),
            layers=(layers := self._layers(plan, order)),
            final_norm=self._final_norm(plan, layers[-1]),
            dropout=self.settings.dropout,
            recompute=self.task.training.gradient_checkpointing,
        )

    def decoder(self, embedding: TokenEmbedding, order: Sequence[int] | None = None) -> Decoder:
        """Returns the decoder; arguments are as of `encoder`."""
        plan = self.plans["decoder"]
        cross = plan.cross_position
        return Decoder(
            embedding=embedding,
            position=self.part(Kind.POSITION, plan.position),
            cross_position=NoPositions() if cross is None else self.part(Kind.POSITION, cross),
            layers=(layers := self._layers(plan, order)),
            final_norm=self._final_norm(plan, layers[-1]),
            dropout=self.settings.dropout,
            recompute=self.task.training.gradient_checkpointing,
        )

    def head(self, outputs: int, embedding: TokenEmbedding) -> Head:
        """Returns the head above the last stack; it shares the embedding's weight if the task ties them."""
        *_, last = self.plans.values()
        head_context = HeadContext(
            **vars(context(self.settings, last.top)),
            outputs=outputs,
            tied=embedding.weight if self.settings.embeddings.tied else None,
            label_smoothing=self.task.training.label_smoothing,
        )
        block = self.settings.head
        head: Head = self.registry.create(Kind.HEAD, block.name, head_context, **block.options)
        return head

    def _layers(self, plan: StackPlan, order: Sequence[int] | None) -> list[Layer]:
        """Returns the layers of a stack.

        Raises:
            ConfigurationError: An attention reads the state of one that is no other of its kind below, or
                the task has settings for a layer that takes no part.
        """
        order = range(len(plan.layers)) if order is None else order
        settings: StackOverrides = getattr(self.settings, plan.top.stack)
        if unused := sorted(set(settings.per_layer) - set(order)):
            raise ConfigurationError(
                f"layer {unused[0]} of the {plan.top.stack} is no layer of its own in this architecture; "
                f"take model.{plan.top.stack}.per_layer.{unused[0]} out"
            )
        made = {number: self._layer(plan.layers[number]) for number in sorted(set(order))}
        for number, layer in made.items():
            for name in ("attention", "cross_attention"):
                reads_layer = getattr(layer.parts.get(name), "reads_layer", None)
                if reads_layer is not None:
                    choices = [each.sublayers[name] for each in plan.layers]
                    state_owner(choices[number], reads_layer, choices)
        return [made[number] for number in order]

    def _layer(self, plan: LayerPlan) -> Layer:
        cross = plan.cross_attention
        model = ResidualContext(
            **vars(context(self.settings, plan.residual.place)),
            sublayers=tuple(plan.sublayers),
            norm=partial(self.part, Kind.NORM, plan.norm),
        )
        block = plan.residual.block
        return Layer(
            attention=self.part(Kind.ATTENTION, plan.attention),
            cross_attention=None if cross is None else self.part(Kind.ATTENTION, cross),
            feed_forward=self.part(Kind.FEED_FORWARD, plan.feed_forward),
            residual=self.registry.create(Kind.RESIDUAL, block.name, model, **block.options),
            dropout=self.settings.dropout,
        )

    def _final_norm(self, plan: StackPlan, last: Layer) -> nn.Module:
        given = self.settings.final_norm
        wanted = last.residual.final_norm if given is None else given
        norm: nn.Module = self.part(Kind.NORM, plan.norm) if wanted else nn.Identity()
        return norm
