"""Tries a model before any data is read: builds it without memory, and computes a few tokens."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.interfaces import (
    UNKNOWN,
    Architecture,
    Attention,
    Batch,
    Context,
    Encoded,
    FeedForward,
    HeadContext,
    Input,
    Level,
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
from plugformer.reproducibility import random_stream

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
    for device in ("meta", "cpu"):  # what fails without the constructors' values is tried again with them
        trial, failed = _Trial(spec), None
        try:
            trial.run(sizes, batch, device)
        except (Exception, SystemExit) as error:
            if out_of_memory(error):
                raise
            failed = error
        unread = {
            (id(part), message): (part, message) for part, message in filter(None, trial.slots.values())
        }
        if trial.refused or not (failed or unread):
            return [*trial.refused.values()]
    return [trial.failure(failed)] if failed else [*unread.values()]


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
    """Builds a model and computes with it; notes what its parts do wrong.

    Attributes:
        refused: What parts refused at the first of their places that they did, by the id of the part.
        running: The parts that compute at the moment, the innermost last.
        read: The encodings and their slots that have been read: by stacks, or by the attention that computes.
        slots: What is wrong with an encoding and an attention, by their ids and a slot through which the
            encoding works; None if the attention reads it in any of its places.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.refused: dict[int, Failure] = {}
        self.running: list[PartSpec] = []
        self.read: set[tuple[nn.Module, str]] = set()
        self.slots: dict[tuple[int, int, str], Failure | None] = {}

    def make(self, part: PartSpec, context: ModelContext, sublayer: str = "") -> Any:
        """Returns a component, or what stands for one that refuses."""
        where = f"{context.place}: " if any(part is other for _, other in self.parts) else ""
        try:
            try:
                component = super().make(part, context, sublayer)
            except PlugformerError:
                with torch.device("cpu"):  # it may need values
                    component = super().make(part, context, sublayer)
        except PlugformerError as error:
            self.refused.setdefault(id(part), (part, f"{where}{error}"))
            return _Refused()
        component.register_forward_pre_hook(partial(self._enter, part))
        if isinstance(context, HeadContext) and not component.output_types.isdisjoint(_NUMBERED):
            component.register_forward_hook(partial(_refuse_other_scores, self.spec.level, context.outputs))
        component.register_forward_hook(partial(self._leave, part))
        if sublayer in ("attention", "cross_attention"):  # further ones need not read positions
            component.register_forward_hook(partial(self._note_slots, part))
        return component

    def run(self, sizes: Sizes, batch: Batch | None, device: str) -> None:
        """Builds the model with the constructors' tensors on a device, and computes a batch on the CPU."""
        spec = self.spec
        with random_stream(spec.seed, "constructors"), float32_default(), torch.device(device):
            model = spec.architecture.build(self, sizes, spec.level).eval()
        if self.refused or batch is None or sum(each.numel() for each in model.parameters()) > _LARGEST:
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # waking up others takes longer than a few tokens do
        try:
            with torch.no_grad():
                if device == "meta":
                    for tensor in (*model.to_empty(device="cpu").parameters(), *model.buffers()):
                        tensor.fill_(0.01 if tensor.is_floating_point() else 0)
                model.logits(batch)
                if not model.head.output_types.isdisjoint(_NUMBERED):
                    model(batch)
        finally:
            torch.set_num_threads(threads)

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
        return part, f"{part.label} failed: {described(error)}" + (f"\nraised in {where}" if where else "")

    def _enter(self, part: PartSpec, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Notes that a part computes; an attention must read itself what layers share."""
        self.running.append(part)
        if not isinstance(module, Attention):
            return arguments
        self.read = {pair for pair in self.read if pair[1] == "embed"}
        return tuple(replace(each) if isinstance(each, Context) else each for each in arguments)

    def _leave(self, part: PartSpec, module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:  # noqa: ARG002
        """Refuses what is misshapen; notes the slot that has been read."""
        _refuse_misshapen(module, arguments, output)
        self.running.pop()
        if isinstance(module, PositionalEncoding):
            self.read.add((module, arguments[0]))

    def _note_slots(self, part: PartSpec, _: nn.Module, arguments: tuple[Any, ...], output: object) -> None:  # noqa: ARG002
        """Notes through which slots the encoding works, and whether an attention has read them."""
        encoding = arguments[1].query.encoding
        for slot in _SLOTS:
            if getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot):
                position = dict(self.parts)[encoding]
                message = f"{position.label} works through `{slot}`, which {part.label} never reads here"
                failure = position, f"{message}: it would make no difference; choose other ones"
                key = id(position), id(part), slot
                self.slots[key] = None if (encoding, slot) in self.read else self.slots.get(key, failure)


def _refuse_other_scores(
    level: Level, outputs: int, head: nn.Module, arguments: tuple[Any, ...], output: object
) -> None:
    """Raises RegistryError for logits with another shape than that of the outputs."""
    method, hidden, *_ = arguments
    if method != "logits" or level is Level.VECTOR:
        return
    by_token = level in (Level.TOKEN, Level.NEXT_TOKEN)
    expected = (*hidden.shape[: 2 if by_token else 1], outputs)
    returned = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if returned != expected:
        name = f"{type(head).__module__}:{type(head).__qualname__}"
        raise RegistryError(f"{name}: it returns logits of shape {returned}, expected {expected}")


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
