"""What the format of another engine provides: reasons to refuse a model, its files, and its answers."""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.evaluation import GenerativePredictor
from plugformer.interfaces import Batch, Generative, Hypothesis, Level, Likelihoods, Tokens
from plugformer.runs import TrainedModel


class ExportError(PlugformerError):
    """An export computes something else than the model that it was made of."""


class Refused(ConfigurationError):  # noqa: N818 (what happened, as its message says it)
    """A format has no counterpart of parts or settings of a model; the message names each of them."""


class Engine(ABC):
    """An export, loaded by the engine that will run it.

    Attributes:
        trained: The model that it was made of.
    """

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained

    @abstractmethod
    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"] | None:
        """Returns what `Model.logits` does, at level `vector` what `Model.hidden` does.

        None if the engine gives no scores of a whole vocabulary; then `log_probabilities` gives something.
        """

    def log_probabilities(self, batch: Batch) -> Float[Tensor, "batch length"] | None:  # noqa: ARG002
        """Returns the log-probability of each target, where an engine has nothing else; by default None."""
        return None

    def search(self, batch: Batch) -> list[list[Hypothesis]]:
        """Returns each example's outputs, the best first, as the task's decoding finds them.

        Only called at level `next-token`.
        """
        raise NotImplementedError

    def predictor(self) -> Any:
        """Returns a predictor that answers as `trained.predictor()` does, with this engine's numbers."""
        own = self.trained.evaluator().predictor
        model = _EngineModel(self)
        if not isinstance(own, GenerativePredictor):
            return replace(own, model=model, precision=None)
        fields = {**vars(own), "model": model, "precision": None}
        return _EnginePredictor(**fields, engine=self)


class Target(ABC):
    """A format that trained models can be exported to.

    Args:
        compute_type: The numbers that weights are stored and computed in.

    Attributes:
        name: The value of `--to`.
        extra: The extra of pyproject.toml with the libraries that it needs.
        libraries: Their import names.
        tolerance: Most that two logits a and b may differ: `tolerance * (1 + abs(b))`.
        compute_types: The compute types that it knows. Only with float32 must logits and outputs be equal.

    Raises:
        ConfigurationError: It has no such compute type.
    """

    name: ClassVar[str]
    extra: ClassVar[str] = "export"
    libraries: ClassVar[tuple[str, ...]] = ()
    tolerance: ClassVar[float] = 1e-4
    compute_types: ClassVar[tuple[str, ...]] = ("float32",)

    def __init__(self, *, compute_type: str = "float32") -> None:
        if compute_type not in self.compute_types:
            known = ", ".join(self.compute_types)
            raise ConfigurationError(f"{self.name} has no compute type {compute_type!r}; known: {known}")
        self.compute_type = compute_type

    @abstractmethod
    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns why a model does not fit, each by part or setting, such as "model.attention 'mla'"."""

    @abstractmethod
    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes an export into an empty folder."""

    @abstractmethod
    def load(self, trained: TrainedModel, folder: Path) -> Engine:
        """Returns the engine with what `write` has written."""

    @abstractmethod
    def usage(self, trained: TrainedModel) -> str:
        """Returns Markdown for the model card: how to use the export without Plugformer."""


class _EngineModel(Generative):
    """A model whose last hidden states are an engine's logits, so that heads and task types read them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.original = engine.trained.model
        self.engine = engine
        self.level, self.spec = self.original.level, self.original.spec
        self.sizes, self.parts = self.original.sizes, self.original.parts
        self.head = copy(self.original.head)
        if self.level is not Level.VECTOR:
            setattr(self.head, "logits", lambda hidden, context: hidden)  # noqa: ARG005, B010 (mypy knows a method)

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns those of the original."""
        return self.original.targets(batch)

    def hidden(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the engine's logits, or vectors."""
        logits = self.engine.logits(batch)
        assert logits is not None  # noqa: S101 (engines without logits are asked for likelihoods and outputs)
        return logits

    def likelihoods(self, batch: Batch) -> Likelihoods:
        """Returns the likelihoods of each example's targets."""
        found = self.engine.log_probabilities(batch)
        if found is None:
            return super().likelihoods(batch)
        real = self.targets(batch)[1]
        total = torch.where(real, found, 0.0).sum(dim=1)
        return Likelihoods(-total, real.sum(dim=1), total, None)

    def begin(self, batch: Batch) -> tuple[Any, Int[Tensor, " batch"]]:
        """Is not called: the engine searches by itself."""
        raise NotImplementedError

    def step(self, tokens: Tokens, past: Any) -> Float[Tensor, "rows new width"]:
        """Is not called: the engine searches by itself."""
        raise NotImplementedError

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns those of the original."""
        return cast("Generative", self.original).input_lengths(batch)

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns that of the original."""
        return cast("Generative", self.original).room(batch)


@dataclass(eq=False)
class _EnginePredictor(GenerativePredictor):
    """Continues sequences with an engine's own search."""

    engine: Engine

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:  # noqa: ARG002 (no random choices)
        """Returns each example's hypotheses, the best first."""
        return self.engine.search(batch)


def further_sublayers(stack: Any) -> set[str]:
    """Returns the names of sublayers besides attention, cross-attention and the feed-forward network."""
    return {name for layer in stack.layers for name in layer.names} - {
        "attention",
        "cross_attention",
        "feed_forward",
    }
