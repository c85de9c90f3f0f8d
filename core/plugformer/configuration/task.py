"""The settings of a task: what a task file says, as pydantic models.

Components appear as blocks: a name, options of their own (checked against the component's constructor,
elsewhere) and, for some kinds, settings that belong to the core. Reading files, merging them and telling the
user where a mistake stands is the rest of this package.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Rate = Annotated[float, Field(ge=0, lt=1)]
# Numbers have limits beyond any use, so that a slip of the keyboard is refused and not built.
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Size = Annotated[int, Field(ge=1, le=2**20)]
Width = Annotated[int, Field(ge=1, le=2**15)]
Layers = Annotated[int, Field(ge=1, le=1_000)]
Part = Annotated[float, Field(gt=0, lt=1)] | Count
"""Some of the examples: a share, or a number."""


class Settings(BaseModel):
    """A mapping of a task file: unknown keys and values of another type are errors.

    Attributes:
        exclusive: Pairs of keys of which at most one may be given; a later layer's key clears the other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for one, other in self.exclusive:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} exclude each other: give one")
        return self


class Component(BaseModel):
    """A component by name with its options; `mha` is short for `{name: mha}`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    name: str

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """The component's own options: every key that the core does not know."""
        return dict(self.model_extra or {})


class Split(Settings):
    """How validation and test examples are taken out of the training examples."""

    validation: Part | None = Field(
        default=None, description="Training examples taken for validation: a share such as 0.05, or a number."
    )
    test: Part | None = Field(
        default=None, description="Training examples taken for the test: a share such as 0.05, or a number."
    )
    by: Literal["random", "order", "group"] = Field(
        default="random",
        description="Which ones: drawn, the last ones, or drawn so that rows of one source stay together.",
    )
    seed: Seed = Field(default=1, description="Of the drawing.")


class Length(Settings):
    """What happens to an example with a side longer than `max` tokens; always counted and reported."""

    max: Count | None = Field(
        default=None, description="Longest side in tokens; the model's max_length if not given."
    )
    over: Literal["drop", "truncate", "refuse"] = Field(
        default="refuse", description="What happens to a longer example."
    )


class Streaming(Settings):
    """Training examples are read while training, pass after pass, instead of being prepared before it.

    For what is too much to prepare. Validation and test splits are prepared as ever.
    """

    buffer: Count = Field(
        default=20_000,
        description="Examples read at a time, for each batch of an update: they are shuffled and make "
        "batches of like length.",
    )
    tokenizer_examples: Count = Field(
        default=1_000_000,
        description="Training examples that tokenizers are trained on: the first ones, of all files alike.",
    )


class DataBlock(Component):
    """Where the examples come from."""

    split: Split | None = None
    streaming: Streaming | None = None
    length: Length = Length()
    padding: Literal["batch"] | Size = Field(
        default="batch", description="Pad to the longest example of each batch, or to this many tokens."
    )


class TokenizerSettings(Settings):
    """One tokenizer for both sides, or one for each; where no text is generated there is a source only."""

    source: Component
    target: Component
    shared: bool = Field(
        default=True, description="One vocabulary for both sides; false if the sides are given apart."
    )
    run: str | None = Field(
        default=None,
        description="A run directory, relative to this file, whose tokenizers are used: name, options and "
        "what they have learned.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_or_two(cls, value: object) -> object:
        if isinstance(value, str):
            value = {"name": value}
        if isinstance(value, dict) and "name" in value:
            own = {key: value[key] for key in ("shared", "run") if key in value}
            block = {key: option for key, option in value.items() if key not in own}
            return {"source": block, "target": block, **own}
        if not isinstance(value, dict):
            return value
        if "source" not in value and "target" not in value:
            raise ValueError("give the name of a tokenizer, or one as source and one as target")
        one = value.get("source", value.get("target"))
        return {"source": one, "target": one, "shared": False, **value}

    @model_validator(mode="after")
    def _shared_is_one(self) -> Self:
        if self.shared and self.source != self.target:
            raise ValueError("a shared tokenizer is one: give its name and options once, or shared: false")
        return self


class Embeddings(Settings):
    """How tokens become vectors."""

    shared: bool = Field(
        default=False, description="One embedding for source and target; needs a shared tokenizer."
    )
    tied: bool = Field(default=False, description="The output projection is the target embedding.")
    scaled: bool = Field(
        default=True,
        description="Embeddings start small and are multiplied by the square root of the width, so that they "
        "learn as fast as other parameters.",
    )


class Overrides(Settings):
    """Settings of a part of the model, instead of those that the model gives to all its parts.

    Attributes:
        independent: Keys that do not follow the key of the same name further out.
    """

    independent: ClassVar[frozenset[str]] = frozenset()


class LayerOverrides(Overrides):
    """Components of a single layer."""

    attention: Component | None = None
    feed_forward: Component | None = None
    norm: Component | None = None
    residual: Component | None = None


class CrossAttention(Overrides):
    """How a decoder reads the encoder's output; no positions unless the task says so."""

    independent = frozenset({"position"})

    attention: Component | None = None
    position: Component | None = None


class StackOverrides(LayerOverrides):
    """Settings of the encoder or the decoder that differ from the model's."""

    layers: Layers | None = Field(default=None, description="Instead of the model's.")
    position: Component | None = None
    per_layer: dict[Annotated[int, Field(ge=0)], LayerOverrides] = Field(
        default={}, description="Components of single layers, by number from 0."
    )


class DecoderOverrides(StackOverrides):
    """Settings of the decoder that differ from the model's."""

    cross_attention: CrossAttention = CrossAttention()


class InitializeFrom(Settings):
    """Where parts of the model have their initial values from."""

    run: str = Field(description="A run directory, relative to this file.")
    parts: Annotated[list[str], Field(min_length=1)] = Field(
        description="Parts of its model: encoder, decoder, head, each without embeddings, and embedding."
    )


class ModelSettings(Settings):
    """The model: its sizes, and the names of its parts."""

    architecture: Component = Field(
        description="encoder-decoder or decoder-only to generate text, encoder-only to label it."
    )
    width: Width = Field(default=128, description="Size of the residual stream.")
    heads: Size = Field(default=4, description="Attention heads; most attentions divide the width by them.")
    layers: Layers = Field(default=2, description="Layers of the encoder, and of the decoder.")
    ffn_width: Size = Field(
        default=512, description="Size of the hidden layer of a feed-forward network: d_ff, dim_feedforward."
    )
    dropout: Rate = Field(default=0.1, description="Rate on embeddings and on the output of each sublayer.")
    attention_dropout: Rate = Field(default=0.0, description="Rate on attention weights.")
    max_length: Size = Field(default=512, description="Longest sequence in tokens, on either side.")
    final_norm: bool | None = Field(
        default=None, description="A norm after the last layer; as the residual needs it, if not given."
    )
    embeddings: Embeddings = Embeddings()
    initialization: Component = Component(name="default")
    initialize_from: InitializeFrom | None = Field(
        default=None, description="Begin with what another run has learned, in some parts."
    )
    position: Component = Component(name="rope")
    attention: Component = Component(name="mha")
    feed_forward: Component = Component(name="gelu")
    norm: Component = Component(name="layer_norm")
    residual: Component = Component(name="pre")
    head: Component
    encoder: StackOverrides = StackOverrides()
    decoder: DecoderOverrides = DecoderOverrides()


class EarlyStopping(Settings):
    """Stop when `training.monitor`, and at equal values the loss, has not improved for some evaluations."""

    patience: Count = Field(description="Evaluations without a better one.")


class Average(Settings):
    """Which evaluations' parameters are averaged into the model that the run ends with."""

    checkpoints: Count = Field(description="Number of evaluations; all, if there are fewer in the end.")
    of: Literal["last", "best"] = Field(
        default="last", description="The last evaluations, or the best by training.monitor."
    )


DEFAULT_EPOCHS = 10
DEFAULT_BATCH_TOKENS = 2048


class TrainingSettings(Settings):
    """How the model is trained."""

    exclusive = (("epochs", "steps"), ("batch_tokens", "batch_size"))

    epochs: Count | None = Field(
        default=None, description=f"Passes over the data; {DEFAULT_EPOCHS} if not given."
    )
    steps: Count | None = Field(default=None, description="Updates in all, instead of epochs.")
    batch_tokens: Count | None = Field(
        default=None,
        description="Source and target positions of a batch, padding included; "
        f"{DEFAULT_BATCH_TOKENS} if not given.",
    )
    batch_size: Count | None = Field(
        default=None, description="Examples of a batch, instead of batch_tokens."
    )
    batches_per_update: Count = Field(
        default=1,
        description="Batches whose gradients one update accumulates, counted over all processes; each has at "
        "least one.",
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description="Keep only what is between layers and compute each twice: less memory, more time.",
    )
    compile: bool = Field(
        default=False,
        description="Compute layers by torch.compile while training; the first updates take longer.",
    )
    shard: bool = Field(
        default=False,
        description="Each of several processes keeps a part of parameters, gradients and optimizer state: "
        "less memory, more communication.",
    )
    precision: Literal["float32", "bf16", "fp16"] | None = Field(
        default=None,
        description="Numbers that training computes with: bf16 and fp16 are mixed with float32, fp16 needs a "
        "GPU. If not given, as `accelerate launch` says, else float32.",
    )
    float32_matmul_precision: Literal["highest", "high"] = Field(
        default="highest",
        description="Precision of products of float32 matrices on a GPU, as PyTorch calls it: high is TF32, "
        "faster with a mantissa of 10 bits.",
    )
    optimizer: Component = Component.model_validate({"name": "adamw", "lr": 0.001})
    schedule: Component = Component(name="warmup_cosine")
    gradient_clipping: Annotated[float, Field(gt=0)] | None = Field(
        default=1.0, description="Largest norm of all gradients together; null for none."
    )
    not_finite: Literal["stop", "skip"] = Field(
        default="stop",
        description="Where loss or gradients are not finite numbers: end the run, or leave the update out.",
    )
    label_smoothing: Rate = Field(
        default=0.0, description="Share of probability spread over all outputs in the training loss."
    )
    seed: Seed = Field(default=1, description="Of initial values, the order of examples and dropout.")
    replicate: Seed = Field(
        default=0,
        description="Another one gives other initial values and dropout with the same order of examples.",
    )
    log_every: Count = Field(default=50, description="Updates between two lines of metrics.jsonl.")
    evaluate_every: Count | None = Field(
        default=None,
        description="Updates between evaluations; an epoch if not given, 1000 if data are streamed.",
    )
    monitor: str = Field(
        default="loss",
        description="What decides the best checkpoint: loss, or one of the metrics and of equals the loss.",
    )
    early_stopping: EarlyStopping | None = None
    keep_checkpoints: Count = Field(
        default=2,
        description="Newest checkpoints kept; a damaged one is passed over for the one before it.",
    )
    average: Average | None = Field(
        default=None,
        description="End with the mean of the parameters at several evaluations, not with the best.",
    )
    hooks: list[Component] = Field(
        default=[], description="Components that take part in the training, in this order."
    )

    @property
    def replicate_seed(self) -> int:
        """The seed of initial values and dropout: in replicate 0 `seed`, in others unlike any process's."""
        if self.replicate == 0:
            return self.seed
        import numpy as np

        return int(np.random.SeedSequence(self.seed, spawn_key=(self.replicate,)).generate_state(1)[0])


class DecodingBlock(Component):
    """How outputs are searched, and what every output must respect."""

    name: str = "greedy"
    max_length: Count | Annotated[str, Field(pattern=r"^source\+\d{1,9}$")] = Field(
        default="source+50",
        description="Longest output in tokens: a number, or relative to the source as source+5.",
    )
    length: Literal["source"] | Count | None = Field(
        default=None,
        description="Exact length of every output in tokens: a number, or that of the source; goes before "
        "max_length.",
    )
    pattern: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Regular expression (syntax of Rust's regex) that every output matches as a whole.",
    )

    @property
    def constrained(self) -> bool:
        """Whether outputs must respect more than a greatest length."""
        return self.length is not None or self.pattern is not None

    def without_constraints(self) -> Self:
        """Returns the same search, free to find what it likes."""
        return self.model_copy(update={"length": None, "pattern": None})


class MetricBlock(Component):
    """A metric, and what its score is called."""

    as_: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        alias="as",
        description="Name of the score; the metric's if not given. It lets one metric stand there twice.",
    )

    @property
    def score_name(self) -> str:
        """What reports and `training.monitor` call the score."""
        return self.as_ or self.name


class EvaluationSettings(Settings):
    """What is measured."""

    metrics: list[MetricBlock] = Field(
        default=[], description="What answers, or the probabilities of the right ones, are scored with."
    )
    samples: Annotated[int, Field(ge=0)] = Field(default=5, description="Outputs shown at each evaluation.")
    limit: Count | None = Field(
        default=1000,
        description="Validation examples decoded at evaluations during training, spread over the split.",
    )


class Task(Settings):
    """A whole task."""

    type: Component = Field(description="What examples mean: what is mapped to what.")
    description: str = Field(default="", description="One sentence for people.")
    registry: str | None = Field(default=None, description="A local manifest, relative to this file.")
    data: DataBlock
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingBlock = DecodingBlock()
    evaluation: EvaluationSettings = EvaluationSettings()
