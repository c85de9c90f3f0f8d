"""Tries a model before any data is read: builds it without memory, and computes a few tokens."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.generators import random_stream
from plugformer.interfaces import (
    UNKNOWN,
    Architecture,
    Attention,
    Batch,
    Context,
    Encoded,
    FeedForward,
    Input,
    Level,
    Model,
    ModelContext,
    ModelSpec,
    Norm,
    OutputType,
    PartSpec,
    PositionalEncoding,
    Ragged,
    Residual,
    Sizes,
)
from plugformer.model.build import Builder, float32_default

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""Methods through which a positional encoding works."""

_NUMBERED = frozenset({OutputType.TEXT, OutputType.TOKENS, OutputType.LABEL, OutputType.TAGS})
"""Answers whose targets are numbers of outputs, so that the loss can be computed, too."""

_LARGEST = 2**28
"""Number of parameters up to which the model computes a batch; a larger one is only constructed."""

Failure = tuple[PartSpec | None, str]
"""A part and what is wrong with it; None for the architecture."""


def dry_run(spec: ModelSpec, sizes: Sizes, batch: Batch | None) -> list[Failure]:
    """Builds a model and computes a batch.

    Args:
        spec: What the model consists of.
        sizes: Sizes of its vocabulary and head, small ones.
        batch: Two examples of different lengths; None to compute nothing.

    Returns:
        The problems, each once for a part: all that constructors refuse; or else the first failure of the
        computation; or else the parts that do not fit each other.
    """
    failures: list[Failure] = []
    for device in ("meta", "cpu"):  # what fails without the constructors' values is tried again with them
        trial = _Trial(spec)
        try:
            with random_stream(spec.seed, "constructors"), float32_default(), torch.device(device):
                model = spec.architecture.build(trial, sizes, spec.level).eval()
        except Exception as error:
            if out_of_memory(error):
                raise
            failures = [*trial.refused.values()]
            if failures or device == "cpu":
                return failures or [trial.failure(error)]
            continue
        if failures := [*trial.refused.values()]:
            return failures
        if batch is None or sum(parameter.numel() for parameter in model.parameters()) > _LARGEST:
            return []
        if device == "meta":
            model.to_empty(device="cpu")
            with torch.no_grad():
                for tensor in (*model.parameters(), *model.buffers()):
                    tensor.fill_(0.01 if tensor.is_floating_point() else 0)
        if not (failures := trial.computed(model, batch)):
            return []
    return failures


def example_batch(
    architecture: Architecture,
    level: Level,
    inputs: Sequence[Input] = (Input(),),
    lengths: Sequence[int] = (3, 2),
) -> Batch:
    """Returns examples of unknown tokens, two rows each where an input has many, with the targets 0 and 1."""
    tokens = Ragged.of([[UNKNOWN] * length for length in lengths])
    outputs = tokens if level is Level.NEXT_TOKEN else None
    targets: Any = None if outputs else np.arange(len(lengths)) % 2
    if level is Level.TOKEN:
        targets = replace(tokens, values=np.arange(len(tokens.values)) % 2)
    pairs = replace(Ragged.of(tokens.rows() * 2), counts=np.full(len(lengths), 2))
    read = {part.name: pairs if part.many else tokens for part in inputs}
    return architecture.collate(Encoded(read, outputs, targets), level)


class _Refused(nn.Identity):
    """Stands for a part that could not be constructed, so that the others are."""

    takes, final_norm = "all", True


class _Trial(Builder):
    """Notes which parts refuse to be made; and of a computation, which parts run, and which slots they read.

    Attributes:
        refused: What parts refused at the first of their places that they did, by the id of the part.
        running: The parts that compute at the moment, the innermost last.
        read: Ids of an encoding and of the part that read it, and the slot; a stack reads as the encoding.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.refused: dict[int, Failure] = {}
        self.running: list[PartSpec] = []
        self.read: set[tuple[int, int, str]] = set()

    def make(self, part: PartSpec, context: ModelContext, sublayer: str = "") -> Any:
        """Returns a component, or what stands for one that refuses."""
        where = f"{context.place}: " if any(part is other for _, other in self.parts) else ""
        try:
            try:
                return super().make(part, context, sublayer)
            except PlugformerError:
                with torch.device("cpu"):  # it may need values
                    return super().make(part, context, sublayer)
        except PlugformerError as error:
            self.refused.setdefault(id(part), (part, f"{where}{error}"))
            return _Refused()

    def computed(self, model: Model, batch: Batch) -> list[Failure]:
        """Computes a batch; returns the first failure, or else the encodings that make no difference."""
        for module, part in dict(self.parts).items():
            module.register_forward_pre_hook(partial(self._enter, part))
            module.register_forward_hook(partial(self._leave, part))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # waking up others takes longer than a few tokens do
        try:
            with torch.no_grad():
                _ = model.logits(batch) if model.head.output_types.isdisjoint(_NUMBERED) else model(batch)
        except (Exception, SystemExit) as error:
            if out_of_memory(error):
                raise
            return [self.failure(error)]
        finally:
            torch.set_num_threads(threads)
        return self._unread()

    def _enter(self, part: PartSpec, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Notes that a part computes; an attention must read itself what layers share."""
        self.running.append(part)
        fresh = isinstance(module, Attention)
        return tuple(replace(each) if fresh and isinstance(each, Context) else each for each in arguments)

    def _leave(self, part: PartSpec, module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
        """Notes which part read a slot; refuses what is misshapen."""
        _refuse_misshapen(module, arguments, output)
        self.running.pop()
        if isinstance(module, PositionalEncoding):
            reader = self.running[-1] if self.running else part
            self.read.add((id(part), id(reader), arguments[0]))

    def failure(self, error: BaseException) -> Failure:
        """Returns an error as the failure of the innermost part that computes.

        Raises:
            BaseException: The error, if no part computes and it is not one of Plugformer's.
        """
        part = self.running[-1] if self.running else None
        if isinstance(error, PlugformerError):
            return part, str(error)
        if part is None:
            raise error
        where = raised_in(error, str(getattr(part.make, "__module__", "")).partition(".")[0])
        return part, f"{part.label} failed: {described(error)}\nraised in {where}"

    def _unread(self) -> list[Failure]:
        """Returns the encodings that work through a slot which an attention never reads."""
        kinds = {id(part): type(module) for module, part in self.parts}
        found: dict[tuple[int, str], Failure] = {}
        for stack in self.spec.stacks.values():
            places = (("attention", stack.position), ("cross_attention", stack.cross_position))
            for attention, position in (
                (layer.sublayers.get(name), position) for layer in stack.layers for name, position in places
            ):
                if position is None or attention is None or id(attention) not in kinds:
                    continue
                for slot in _SLOTS:
                    works = getattr(kinds[id(position)], slot) is not getattr(PositionalEncoding, slot)
                    readers = {(id(position), id(part), slot) for part in (attention, position)}
                    if works and not readers & self.read:
                        message = f"works through `{slot}`, which {attention.label} never reads here"
                        hint = "it would make no difference; choose other ones"
                        message = f"{position.label} {message}: {hint}"
                        found[id(position), message] = position, message
        return [*found.values()]


def _refuse_misshapen(module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
    """Raises RegistryError for an output that differs from the input in shape or dtype."""

    def shown(value: object) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype} of shape {tuple(value.shape)}"
        return type(value).__name__

    slot, *given = arguments if isinstance(module, PositionalEncoding) else ("forward", *arguments)
    if isinstance(module, Attention | FeedForward | Norm | Residual) or slot in ("embed", "rotate"):
        returned, expected = shown(output), shown(given[0])
        if returned != expected:
            name = f"{type(module).__module__}:{type(module).__qualname__}"
            raise RegistryError(f"{name}: it returns {returned}, expected {expected}")
