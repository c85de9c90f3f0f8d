"""The settings of a task file, as pydantic models.

A component is a block: a name, options of its own (its constructor checks them) and, for some kinds, settings
of the core. The other modules of this package read files, merge them and locate mistakes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plugformer.registry.options import keys_of
from plugformer.yaml_tree import Key

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
        exclusive: Pairs of keys of which at most one may be given; a later layer's replaces the other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for one, other in self.exclusive:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} exclude each other: give one")
        return self

    @classmethod
    def replaced(cls, base: Mapping[Key, Any], over: Mapping[Key, Any]) -> set[Key]:
        """Returns the keys of a mapping that another choice, in a mapping over it, takes the place of."""
        pairs = (*cls.exclusive, *((other, one) for one, other in cls.exclusive))
        return {key for one, key in pairs if over.get(one) is not None and key in base}


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

    @classmethod
    def replaced(cls, base: Mapping[Key, Any], over: Mapping[Key, Any]) -> set[Key]:
        """Returns name and options in a component's block, if a block over it names a component."""
        return {*base} - (keys_of(cls) - {"name"}) if "name" in over else set()


class Split(Settings):
    """How validation and test examples are taken out of the training examples."""

    validation: Part | None = Field(default=None, description="A share or a number of training examples.")
    test: Part | None = Field(default=None, description="A share or a number of training examples.")
    by: Literal["random", "order", "group"] = Field(
        default="random",
        description="random; order: the last rows; group: random, but equal sources stay together.",
    )
    seed: Seed = Field(default=1, description="Seed of the random split.")


class Length(Settings):
    """How to treat an example with a side longer than `max` tokens; such examples are always reported."""

    max: Count | None = Field(default=None, description="Longest side in tokens; null for model.max_length.")
    training: Count | None = Field(
        default=None, description="The same for training examples, to evaluate on longer ones; null for max."
    )
    over: Literal["drop", "truncate", "refuse"] = Field(
        default="refuse", description="How to treat a longer example."
    )


class Streaming(Settings):
    """Read training examples during the training, for data that are too large to be prepared before."""

    buffer: Count = Field(
        default=20_000, description="Examples that are read, shuffled and grouped by length at a time."
    )
    tokenizer_examples: Count = Field(
        default=1_000_000, description="First examples, which train tokenizers."
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
    """One tokenizer for both sides, or one for each; a task without text output has only the source's."""

    source: Component
    target: Component
    shared: bool = Field(default=True, description="One vocabulary for both sides; false for two blocks.")
    run: str | None = Field(default=None, description="A run with the tokenizers, relative to this file.")

    _by_side = model_validator(mode="before")(lambda value: by_side(value))

    @classmethod
    def replaced(cls, base: Mapping[Key, Any], over: Mapping[Key, Any]) -> set[Key]:
        """Returns what a tokenizer for both sides, one for each, or those of a run take the place of."""
        if "name" in over:
            return {*base} - {"shared"}
        if "run" in over:
            return {*base}
        given = {"source", "target"} & over.keys()
        return {*base} - given if len(given) == 2 else {"run", "shared"} if given else set()

    @model_validator(mode="after")
    def _shared_is_one(self) -> Self:
        if self.shared and self.source != self.target:
            raise ValueError("a shared tokenizer is one: give its name and options once, or shared: false")
        return self


def by_side(value: Any) -> Any:
    """Returns a tokenizer for each side.

    Raises:
        ValueError: No tokenizer is named, or one for both sides and one for a side.
    """
    block = {"name": value} if isinstance(value, str) else value
    if not isinstance(block, dict):
        return value
    core = {key: block[key] for key in ("shared", "run") if key in block}
    sides = {side: block[side] for side in ("source", "target") if block.get(side) is not None}
    both = {key: item for key, item in block.items() if key not in (*core, "source", "target")}
    if ("name" in both) == bool(sides):
        raise ValueError("give the name of a tokenizer, or one as source and one as target")
    one = next(iter(sides.values()), both)
    return {"source": one, "target": one, "shared": not sides, **core, **(both if sides else {}), **sides}


class Embeddings(Settings):
    """How tokens become vectors."""

    shared: bool = Field(default=False, description="One embedding for both sides; needs a shared tokenizer.")
    tied: bool = Field(default=False, description="The output projection is the target embedding.")
    scaled: bool = Field(
        default=True,
        description="Initial values are small, and the square root of the width multiplies embeddings.",
    )


class LayerOverrides(Settings):
    """Components of a single layer."""

    attention: Component | None = None
    feed_forward: Component | None = None
    norm: Component | None = None
    residual: Component | None = None


class CrossAttention(Settings):
    """How a decoder reads the encoder's output; without positions by default."""

    attention: Component | None = None
    position: Component | None = None


OWN = ("attention", "cross_attention", "feed_forward")
"""The sublayers that a layer has without any setting, in the order of computation."""


class ExtraSublayer(Settings):
    """A further sublayer of each layer: a mixer of tokens or a network, with its residual connection."""

    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("attention", "feed_forward"), ("after", "before"))

    attention: Component | None = None
    feed_forward: Component | None = None
    after: str | None = Field(default=None, description="The sublayer that it follows; by default the last.")
    before: str | None = Field(default=None, description="The sublayer that follows it.")

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if self.attention is None and self.feed_forward is None:
            raise ValueError("a sublayer is an attention or a feed_forward: give one")
        return self


Extras = dict[Annotated[str, Field(pattern=r"^[a-z]\w*$")], ExtraSublayer]


class StackOverrides(LayerOverrides):
    """Settings of the encoder or the decoder that differ from the model's."""

    layers: Layers | None = Field(default=None, description="Number of layers, instead of the model's.")
    position: Component | None = None
    sublayers: Extras | None = Field(default=None, description="Further sublayers, instead of the model's.")
    per_layer: dict[Annotated[int, Field(ge=0)], LayerOverrides] = Field(
        default={}, description="Components of single layers, by number from 0."
    )


class DecoderOverrides(StackOverrides):
    """Settings of the decoder that differ from the model's."""

    cross_attention: CrossAttention = CrossAttention()


class ModelSettings(Settings):
    """The model: its sizes, and the names of its parts."""

    architecture: Component = Field(description="encoder-decoder, decoder-only (generate) or encoder-only.")
    width: Width = Field(default=128, description="Size of the residual stream.")
    heads: Size = Field(default=4, description="Attention heads; most attentions divide the width by them.")
    layers: Layers = Field(default=2, description="Layers of the encoder, and of the decoder.")
    ffn_width: Size = Field(default=512, description="Hidden size of feed-forward networks, called d_ff.")
    dropout: Rate = Field(default=0.1, description="Rate on embeddings and on the output of each sublayer.")
    attention_dropout: Rate = Field(default=0.0, description="Rate on attention weights.")
    token_dropout: Rate | None = Field(
        default=None,
        description="Share of tokens that are UNKNOWN in training; if null, the task type decides.",
    )
    max_length: Size = Field(default=512, description="Longest sequence in tokens, on either side.")
    final_norm: bool | None = Field(default=None, description="A last norm; if null, the residual decides.")
    initialize_from: dict[str, Any] | None = Field(
        default=None,
        description="Weights to begin with, such as {transformers: DIR}; they decide other settings.",
    )
    embeddings: Embeddings = Embeddings()
    initialization: Component = Component(name="default")
    parametrization: Component = Component(name="standard")
    position: Component = Component(name="rope")
    attention: Component = Component(name="mha")
    feed_forward: Component = Component(name="gelu")
    norm: Component = Component(name="layer_norm")
    residual: Component = Component(name="pre")
    sublayers: Extras = Field(default={}, description="Further sublayers of each layer, by name.")
    head: Component
    encoder: StackOverrides = StackOverrides()
    decoder: DecoderOverrides = DecoderOverrides()


class EarlyStopping(Settings):
    """Stop when `training.monitor`, and at equal values the loss, has not improved for some evaluations."""

    patience: Count = Field(description="Evaluations without a better one.")


class OptimizerGroup(Component):
    """Parameters that are moved differently; without a name, the block's optimizer with other options."""

    name: str = ""
    parameters: list[str] = Field(min_length=1, description="Patterns of paths: a module, or `*.norms.*`.")
    lr_factor: float = Field(default=1.0, gt=0, description="Multiplies the learning rate.")
    schedule: Component | None = Field(default=None, description="Instead of training.schedule.")


class OptimizerBlock(Component):
    """How parameters are moved; of several groups that match one, the first counts."""

    groups: list[OptimizerGroup] = Field(default=[], description="Parameters that are moved differently.")
    layer_decay: float | None = Field(default=None, gt=0, lt=1, description="Factor of each layer above.")


DEFAULT_EPOCHS = 10
DEFAULT_BATCH_TOKENS = 2048


class TrainingSettings(Settings):
    """How the model is trained."""

    exclusive = (("epochs", "steps"), ("batch_tokens", "batch_size"))

    epochs: Count | None = Field(default=None, description=f"Passes over the data; {DEFAULT_EPOCHS} if null.")
    steps: Count | None = Field(default=None, description="Updates in all, instead of epochs.")
    batch_tokens: Count | None = Field(
        default=None,
        description=f"Positions of a batch, padding included; if not given {DEFAULT_BATCH_TOKENS}, or fewer "
        "for few data.",
    )
    batch_size: Count | None = Field(
        default=None, description="Examples of a batch, of similar length, instead of its tokens."
    )
    batches_per_update: Count = Field(default=1, description="Gradient accumulation, over all processes.")
    gradient_checkpointing: bool = Field(default=False, description="Less memory, but layers compute twice.")
    compile: bool | Literal["auto"] = Field(
        default="auto",
        description="torch.compile layers and loss; the first updates are slow. `auto`: long ones on a GPU.",
    )
    shard: bool = Field(default=False, description="Shard parameters and states over the processes.")
    precision: Literal["float32", "bf16", "fp16"] = Field(
        default="float32", description="bf16 and fp16 are mixed with float32."
    )
    float32_matmul_precision: Literal["highest", "high"] = Field(
        default="highest", description="high: TF32 on a GPU, faster, with a mantissa of 10 bits."
    )
    optimizer: OptimizerBlock = OptimizerBlock.model_validate({"name": "adamw", "lr": 0.001})
    schedule: Component = Component(name="warmup_cosine")
    gradient_clipping: Annotated[float, Field(gt=0)] | None = Field(
        default=1.0, description="Largest norm of all gradients together; null for no clipping."
    )
    on_nonfinite: Literal["raise", "skip"] = Field(
        default="raise",
        description="If loss or gradients are not finite, end with an error, or skip the update.",
    )
    seed: Seed = Field(default=1, description="Seed of initial values, the order of examples and dropout.")
    replicate: Seed = Field(default=0, description="Other initial values and dropout, same order of data.")
    resample: bool = Field(
        default=False,
        description="Train on examples that `seed` draws with replacement, as many as there are.",
    )
    log_every: Count = Field(default=50, description="Updates between two lines of metrics.jsonl.")
    evaluate_every: Count | None = Field(
        default=None,
        description="Updates between evaluations; by default an epoch, or 1000 if data are streamed.",
    )
    monitor: str | None = Field(
        default=None,
        description="The score of the best checkpoint, by default the first metric; the loss at a tie.",
    )
    early_stopping: EarlyStopping | None = None
    keep_checkpoints: Count = Field(default=2, description="Number of newest checkpoints that are kept.")
    callbacks: list[Component] = Field(default=[], description="Components that take part in the training.")

    @property
    def replicate_seed(self) -> int:
        """The seed of initial values and dropout: `seed` in replicate 0, in others unlike any process's."""
        if self.replicate == 0:
            return self.seed
        import numpy as np

        return int(np.random.SeedSequence(self.seed, spawn_key=(self.replicate,)).generate_state(1)[0])


class DecodingBlock(Component):
    """The search for outputs, and the constraints on every output."""

    name: str = "greedy"
    max_length: Count | Annotated[str, Field(pattern=r"^source\+\d{1,9}$")] = Field(
        default="source+50", description="Longest output in tokens, such as 100, or source+5."
    )
    length: Literal["source"] | Count | None = Field(
        default=None, description="Exact length of outputs in tokens, or that of the source."
    )
    pattern: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Regular expression (syntax of Rust's regex) that every output matches as a whole.",
    )
    constraint: Component | None = Field(
        default=None, description="Which texts outputs may be, instead of a pattern."
    )

    @property
    def constrained(self) -> bool:
        """Whether outputs have a constraint besides the maximum length."""
        return self.length is not None or self.output_constraint is not None

    @property
    def constraint_key(self) -> str:
        """The key that says which texts outputs may be."""
        return "constraint" if self.pattern is None else "pattern"

    @property
    def output_constraint(self) -> Component | None:
        """Which texts outputs may be: `pattern` is short for a component of that name."""
        if self.pattern is None:
            return self.constraint
        return Component.model_validate({"name": "plugformer:pattern", "expression": self.pattern})

    @model_validator(mode="after")
    def _one_constraint(self) -> Self:
        if self.pattern is not None and self.constraint is not None:
            raise ValueError("pattern and constraint exclude each other: give one")
        return self


class MetricBlock(Component):
    """A metric, and the name of its score."""

    as_: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, alias="as", description="Name of the score, so that a metric can be used twice."
    )

    @property
    def score_name(self) -> str:
        """The name of the score in reports and `training.monitor`."""
        return self.as_ or self.name


class EvaluationSettings(Settings):
    """Metrics and samples of an evaluation."""

    metrics: list[MetricBlock] = Field(
        default=[], description="Scores of answers, or of probabilities of answers."
    )
    baselines: list[Component] | None = Field(
        default=None, description="Simple methods to compare with; by default those of the task type."
    )
    samples: Annotated[int, Field(ge=0)] = Field(default=5, description="Outputs shown at each evaluation.")
    limit: Count | None = Field(
        default=1000, description="Examples to decode at evaluations during training."
    )


class Task(Settings):
    """A whole task."""

    type: Component = Field(description="The task type: what is mapped to what.")
    description: str = Field(default="", description="One sentence for people.")
    registry: str | list[str] | None = Field(
        default=None, description="Local manifests, one or a list, relative to this file."
    )
    data: DataBlock
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingBlock = DecodingBlock()
    evaluation: EvaluationSettings = EvaluationSettings()

    @property
    def monitor(self) -> str:
        """The score of the best checkpoint: the loss where nothing is said and there is no metric."""
        return self.training.monitor or next((each.score_name for each in self.evaluation.metrics), "loss")
