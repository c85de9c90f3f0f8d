"""Assembly: from a task's `model:` settings and the registry to a model with initial values."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from plugformer.configuration.task import Model as ModelSettings
from plugformer.configuration.task import Task
from plugformer.interfaces import Head, HeadContext, ModelContext, Norm, Place
from plugformer.kinds import Kind
from plugformer.model.decoder import Decoder
from plugformer.model.embedding import TokenEmbedding
from plugformer.model.encoder import Encoder
from plugformer.model.initialization import Initialization, initialize, random_stream
from plugformer.model.layer import DecoderLayer, EncoderLayer, PostNorm, PreNorm, Residual
from plugformer.model.models import EncoderDecoder, EncoderOnly, Model
from plugformer.model.plan import Choice, LayerPlan, StackPlan, plan_decoder, plan_encoder
from plugformer.model.vector_functions import settle_vector_functions
from plugformer.registry import Registry

RESIDUALS: dict[str, type[Residual]] = {"pre": PreNorm, "post": PostNorm}


@dataclass(frozen=True)
class Sizes:
    """What a model must know of the data.

    Attributes:
        source: Size of the source vocabulary.
        outputs: Size of the target vocabulary, or the number of labels.
    """

    source: int
    outputs: int


def assemble(task: Task, sizes: Sizes, registry: Registry) -> Model:
    """Returns the model that a task describes, its initial values drawn from the task's seed and stream.

    Raises:
        ConfigurationError: A component refuses its options or the model's sizes.
        RegistryError: A component cannot be loaded.
    """
    settle_vector_functions()
    seed = task.training.stream_seed
    with random_stream(seed, "constructors"):  # torch's own draw values, too, which are then replaced
        model = ARCHITECTURES[task.model.architecture](Builder(task, registry), sizes)
    initialize(model, seed, Initialization(task.model.initialization))
    return model


def context(settings: ModelSettings, place: Place) -> ModelContext:
    """Returns what the part at a place is told."""
    return ModelContext(
        width=settings.width,
        heads=settings.heads,
        hidden_width=settings.hidden_width,
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        max_length=settings.max_length,
        place=place,
    )


class Builder:
    """Builds the parts of one model from the components that its plan names."""

    def __init__(self, task: Task, registry: Registry) -> None:
        self.task = task
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

    def encoder(self, embedding: TokenEmbedding) -> Encoder:
        """Returns the encoder."""
        plan = plan_encoder(self.settings)
        return Encoder(
            embedding=embedding,
            position=self.part(Kind.POSITION, plan.position),
            layers=[self._encoder_layer(layer) for layer in plan.layers],
            final_norm=self._final_norm(plan),
            dropout=self.settings.dropout,
            recompute=self.task.training.gradient_checkpointing,
        )

    def decoder(self, embedding: TokenEmbedding) -> Decoder:
        """Returns the decoder."""
        plan = plan_decoder(self.settings)
        return Decoder(
            embedding=embedding,
            position=self.part(Kind.POSITION, plan.position),
            cross_position=self.part(Kind.POSITION, plan.cross_position),
            layers=[self._decoder_layer(layer) for layer in plan.layers],
            final_norm=self._final_norm(plan),
            dropout=self.settings.dropout,
            recompute=self.task.training.gradient_checkpointing,
        )

    def head(self, outputs: int, embedding: TokenEmbedding, place: Place) -> Head:
        """Returns the head above a stack; it shares the embedding's weight if the task ties them."""
        head_context = HeadContext(
            **vars(context(self.settings, place)),
            outputs=outputs,
            tied=embedding.weight if self.settings.embeddings.tied else None,
            label_smoothing=self.task.training.label_smoothing,
        )
        block = self.settings.head
        head: Head = self.registry.create(Kind.HEAD, block.name, head_context, **block.options)
        return head

    def _encoder_layer(self, plan: LayerPlan) -> EncoderLayer:
        return EncoderLayer(
            attention=self.part(Kind.ATTENTION, plan.attention),
            feed_forward=self.part(Kind.FEED_FORWARD, plan.feed_forward),
            residuals=(self._residual(plan), self._residual(plan)),
        )

    def _decoder_layer(self, plan: LayerPlan) -> DecoderLayer:
        return DecoderLayer(
            attention=self.part(Kind.ATTENTION, plan.attention),
            cross_attention=self.part(Kind.ATTENTION, plan.cross_attention),
            feed_forward=self.part(Kind.FEED_FORWARD, plan.feed_forward),
            residuals=(self._residual(plan), self._residual(plan), self._residual(plan)),
        )

    def _residual(self, plan: LayerPlan) -> Residual:
        norm: Norm = self.part(Kind.NORM, plan.norm)
        return RESIDUALS[self.settings.placement](norm, self.settings.dropout)

    def _final_norm(self, plan: StackPlan) -> nn.Module:
        settings = self.settings
        wanted = settings.placement == "pre" if settings.final_norm is None else settings.final_norm
        norm: nn.Module = self.part(Kind.NORM, plan.norm) if wanted else nn.Identity()
        return norm


def _encoder_decoder(builder: Builder, sizes: Sizes) -> Model:
    settings = builder.settings.embeddings
    source = builder.embedding(sizes.source, tied=settings.tied and settings.shared)
    target = source if settings.shared else builder.embedding(sizes.outputs, tied=settings.tied)
    head = builder.head(sizes.outputs, target, plan_decoder(builder.settings).top)
    return EncoderDecoder(builder.encoder(source), builder.decoder(target), head)


def _encoder_only(builder: Builder, sizes: Sizes) -> Model:
    embedding = builder.embedding(sizes.source, tied=False)
    head = builder.head(sizes.outputs, embedding, plan_encoder(builder.settings).top)
    return EncoderOnly(builder.encoder(embedding), head)


ARCHITECTURES = {"encoder-decoder": _encoder_decoder, "encoder-only": _encoder_only}
