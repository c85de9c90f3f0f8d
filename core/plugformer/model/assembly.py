"""Assembly: from a task's `model:` settings and the registry to a model with initial values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from plugformer.configuration.plan import (
    Choice,
    LayerPlan,
    StackPlan,
    context,
    plan_stacks,
    refuse_unused,
    state_owner,
)
from plugformer.configuration.task import Task
from plugformer.creation import create_architecture, create_task_type
from plugformer.errors import ConfigurationError
from plugformer.generators import random_stream
from plugformer.interfaces import (
    Architecture,
    Head,
    HeadContext,
    Model,
    NoPositions,
    ResidualContext,
    Sizes,
)
from plugformer.kinds import Kind
from plugformer.model.decoder import Decoder
from plugformer.model.encoder import Encoder, TokenEmbedding
from plugformer.model.initialization import draw_own_values, initialize
from plugformer.model.layer import Layer
from plugformer.registry import Registry
from plugformer.threads import warm_up_mkl


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
    with _float32():
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


@contextmanager
def _float32() -> Iterator[None]:
    """Inside, parameters are made in float32, whatever the program around has made torch's default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


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

    def part(self, choice: Choice) -> Any:
        """Returns a component; the registry has checked that it implements its kind's interface."""
        told = context(self.settings, choice.place)
        return self.registry.create(choice.kind, choice.block.name, told, **choice.block.options)

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
        return Encoder(**self._stack("encoder", embedding, order))

    def decoder(self, embedding: TokenEmbedding, order: Sequence[int] | None = None) -> Decoder:
        """Returns the decoder; arguments are as of `encoder`."""
        cross = self.plans["decoder"].cross_position
        position = NoPositions() if cross is None else self.part(cross)
        return Decoder(cross_position=position, **self._stack("decoder", embedding, order))

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

    def _stack(self, name: str, embedding: TokenEmbedding, order: Sequence[int] | None) -> dict[str, Any]:
        """Returns the arguments that encoders and decoders have in common."""
        plan, norm = self.plans[name], self.settings.final_norm
        position = self.part(plan.position)
        layers = self._layers(plan, order)
        has_norm = layers[-1].residual.final_norm if norm is None else norm
        return {
            "embedding": embedding,
            "position": position,
            "layers": layers,
            "final_norm": self.part(plan.norm) if has_norm else nn.Identity(),
            "dropout": self.settings.dropout,
            "recompute": self.task.training.gradient_checkpointing,
        }

    def _layers(self, plan: StackPlan, order: Sequence[int] | None) -> list[Layer]:
        """Returns the layers of a stack.

        Raises:
            ConfigurationError: An attention reads the state of one that is no other of its kind below, or
                that the order has at another place; or the task has settings for a layer that takes no part.
        """
        order = range(len(plan.layers)) if order is None else order
        refuse_unused(self.settings, plan.top.stack, order)
        made = {number: self._layer(plan.layers[number]) for number in sorted(set(order))}
        for place, number in enumerate(order):
            for name, reads_layer in made[number].reads_layers.items():
                choices = [each.sublayers[name] for each in plan.layers]
                owner = state_owner(choices[number], reads_layer, choices)
                if reads_layer not in order[:place] or order[reads_layer] != reads_layer:
                    raise ConfigurationError(
                        f"attention {owner.block.name!r} in {choices[number].place} reads the state of "
                        f"{owner.place}, which this architecture has at another place\n"
                        "choose another attention or architecture"
                    )
        return [made[number] for number in order]

    def _layer(self, plan: LayerPlan) -> Layer:
        parts = {name: self.part(choice) for name, choice in plan.sublayers.items()}
        model = ResidualContext(
            **vars(context(self.settings, plan.residual.place)),
            sublayers=tuple(plan.sublayers),
            norm=partial(self.part, plan.norm),
        )
        block = plan.residual.block
        residual = self.registry.create(Kind.RESIDUAL, block.name, model, **block.options)
        return Layer(**parts, residual=residual, dropout=self.settings.dropout)
