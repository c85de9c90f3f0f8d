"""Engines that read an exported model: reasons to refuse a run, its files, and its answers."""

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from plugformer.errors import ConfigurationError, PlugformerError, needing
from plugformer.evaluation import GenerativePredictor
from plugformer.interfaces import (
    BIDIRECTIONAL,
    CAUSAL,
    AllowedOutputs,
    Batch,
    Generative,
    Hypothesis,
    Level,
    Likelihoods,
    Tokens,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel


class ExportError(PlugformerError):
    """An export computes something other than the model that it was made from."""


class UnsupportedExport(ConfigurationError):  # noqa: N818 (what it is, as its message says it)
    """A format has no counterpart of parts or settings of a model; the message names each of them."""


class LoadedModel(ABC):
    """An export, loaded by the engine that will run it.

    One of a model that generates has `begin` and `step`, which the task's decoding calls, or it is a
    `SearchingModel`.

    Attributes:
        trained: The model that it was made of.
        has_scores: Whether outputs that it finds have scores.
    """

    has_scores: ClassVar[bool] = True

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained

    @cached_property
    def _answering(self) -> "_EngineModel":
        return _EngineModel(self).eval()

    @abstractmethod
    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"] | None:
        """Returns what `Model.logits` does, at level `vector` what `Model.hidden` does.

        None if the engine gives no scores of a whole vocabulary; then `log_probabilities` gives something.
        """

    def log_probabilities(self, batch: Batch) -> Float[Tensor, "batch length"] | None:  # noqa: ARG002
        """Returns the log-probability of each target, where an engine has nothing else; by default None."""
        return None

    def begin(self, batch: Batch) -> tuple[Any, Float[Tensor, "batch outputs"]]:
        """Returns a cache of all given tokens, like `Generative.begin`, and the scores of the next ones."""
        raise NotImplementedError

    def step(self, tokens: Int[Tensor, " rows"], past: Any) -> Float[Tensor, "rows outputs"]:
        """Returns the scores after another token of each row, and adds the tokens to the cache."""
        raise NotImplementedError

    def answering(self, predictor: Any) -> Any:
        """Returns a predictor that answers as one of the model does, with this engine's numbers."""
        return replace(predictor, model=self._answering, precision=None)


class SearchingModel(LoadedModel):
    """An engine with a search of its own."""

    def finds(self, batch: Batch) -> bool:  # noqa: ARG002
        """Returns whether it searches the outputs of a batch; else the model does."""
        return True

    def search(self, batch: Batch, allowed: AllowedOutputs, n_best: int) -> list[list[Hypothesis]]:
        """Returns each example's outputs, the best first; those with the same limit are searched together."""
        model: Any = self.trained.model
        lengths = model.input_lengths(batch), model.room(batch)
        limits = allowed.bounds(*lengths)[1].tolist()
        answers: dict[int, list[Hypothesis]] = {}
        for limit in set(limits):
            rows = [row for row, other in enumerate(limits) if other == limit]
            answers.update(zip(rows, self.outputs(batch, rows, limit, n_best), strict=True))
        return [answers[row] for row in range(len(limits))]

    @abstractmethod
    def outputs(self, batch: Batch, rows: list[int], most: int, n_best: int) -> list[list[Hypothesis]]:
        """Returns up to `n_best` outputs of some rows, of at most `most` tokens, the best of each first."""

    def answering(self, predictor: Any) -> Any:
        """Returns a predictor whose outputs this engine finds."""
        found = super().answering(predictor)
        if not isinstance(found, GenerativePredictor):
            return found
        given = {each.name: getattr(found, each.name) for each in fields(found) if each.init}
        return _EnginePredictor(**given, engine=self, own=predictor)


class Format(ABC):
    """What an engine reads: how a trained model is written for it, and what keeps it from that.

    Args:
        compute_type: The numbers that weights are stored and computed in.

    Attributes:
        name: The engine's, as in its manifest.
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
        """Writes an export of a model without problems into an empty folder."""

    @abstractmethod
    def load(self, trained: TrainedModel, folder: Path) -> LoadedModel:
        """Returns the engine with what `write` has written."""

    @abstractmethod
    def usage(self, trained: TrainedModel) -> str:
        """Returns Markdown for the model card: how to use the export without Plugformer."""

    def require(self, purpose: str) -> None:
        """Raises ConfigurationError, with the extra to install for a purpose, if a library is missing."""
        with needing(self.extra, purpose):
            for library in self.libraries:
                import_module(library)


class _EngineModel(Generative):
    """A model whose last hidden states are an engine's logits, so that heads and task types read them."""

    device = torch.device("cpu")

    def __init__(self, engine: LoadedModel) -> None:
        super().__init__()
        self.original = cast("Generative", engine.trained.model)
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

    def begin(self, batch: Batch) -> tuple[Any, Float[Tensor, "batch outputs"]]:
        """Returns the engine's cache, and the scores of the first tokens."""
        return self.engine.begin(batch)

    def step(self, tokens: Tokens, past: Any) -> Float[Tensor, "rows 1 outputs"]:
        """Returns the scores after the next tokens."""
        return self.engine.step(tokens.ids[:, 0], past)[:, None]

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns those of the original."""
        return self.original.input_lengths(batch)

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns that of the original."""
        return self.original.room(batch)


@dataclass(eq=False)
class _EnginePredictor(GenerativePredictor):
    """Continues sequences with an engine's own search."""

    engine: SearchingModel
    own: GenerativePredictor

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:
        """Returns each example's hypotheses, the best first."""
        if not self.engine.finds(batch):
            return self.own.search(batch, first)
        return self.engine.search(batch, self.allowed, self.n_best)


def stated(trained: TrainedModel, path: str) -> str:
    """Returns the settings of the part at a path, and what it is."""
    part = trained.model.parts[path]
    return f"{'.'.join(map(str, part.origin)) or path}: {part.label}"


def is_built_in(trained: TrainedModel, path: str, kind: Kind, name: str) -> bool:
    """Returns whether the part at a path is the built-in one of a name."""
    make: Any = trained.model.parts[path].make
    return bool(make is trained.registry.load(kind, f"plugformer:{name}"))


def stack_problems(trained: TrainedModel) -> Iterator[str]:
    """Yields what stacks have that those of other engines lack: other views, sublayers, and positions."""
    model: Any = trained.model
    for name, stack in model.stacks.items():
        if stack.view != (CAUSAL if name == "decoder" else BIDIRECTIONAL):
            yield f"model.architecture: the view {stack.view} of the {name}"
        cross = f"{name}.cross_position"
        if cross in model.parts and not is_built_in(trained, cross, Kind.POSITION, "none"):
            yield f"{stated(trained, cross)} in cross-attention"
        for sublayer in sorted(further_sublayers(stack)):
            yield f"model.sublayers.{sublayer}"


def further_sublayers(stack: Any) -> set[str]:
    """Returns the names of sublayers besides attention, cross-attention and the feed-forward network."""
    usual = {"attention", "cross_attention", "feed_forward"}
    return {name for layer in stack.layers for name in layer.names} - usual


def search_problems(trained: TrainedModel) -> list[str]:
    """Returns what keeps the task's decoding from being a greedy or a beam search without constraints."""
    if trained.model.level is not Level.NEXT_TOKEN:
        return []
    decoding, found = trained.task.decoding, []
    known = [trained.registry.load(Kind.DECODING, f"plugformer:{name}") for name in ("greedy", "beam")]
    if trained.registry.load(Kind.DECODING, decoding.name) not in known:
        found.append(f"decoding: {decoding.name!r}")
    for key in ("pattern", "constraint", "length"):
        if getattr(decoding, key) is not None:
            without = f"; leave it out with --set decoding.{key}=null"
            found.append(f"decoding.{key}: {getattr(decoding, key)!r} (a constraint{without})")
    return found


def reads_input(trained: TrainedModel) -> bool:
    """Returns whether examples have an input, which END separates from the output."""
    return any(column.role == "input" for column in trained.experiment.task_type.columns)


def most_tokens(trained: TrainedModel) -> str:
    """Returns Python for the most tokens of an output; `row` has the tokens of its input or prompt."""
    decoding, room = trained.task.decoding, trained.task.model.max_length - 1
    setting = decoding.max_length if decoding.length is None else decoding.length
    most = setting if isinstance(setting, int) else f"len(row) + {int(setting.removeprefix('source') or 0)}"
    if len(trained.model.stacks) == 1:  # a prompt and its continuation share the model's length
        return f"min({most}, {room - reads_input(trained)} - len(row))"
    return f"min({most}, {room})"


def given_tokens(batch: Batch) -> list[list[int]]:
    """Returns the given tokens of each row of the target, without padding."""
    counts = [1] * len(batch.target.ids) if batch.given is None else batch.given.tolist()
    rows = zip(batch.target.ids, batch.target.mask, counts, strict=True)
    return [ids[real][:count].tolist() for ids, real, count in rows]


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """A context in which libraries report nothing: the comparison tells whether they are right."""
    found = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in found]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in found:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(found, levels, strict=True):
                logger.setLevel(level)
