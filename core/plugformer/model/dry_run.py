"""Tries a model before any data is read: builds it, and computes a few tokens."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.interfaces import (
    UNKNOWN,
    Architecture,
    Batch,
    Encoded,
    Head,
    Input,
    Level,
    ModelContext,
    PositionalEncoding,
    Ragged,
)
from plugformer.interfaces.head import targets_are_outputs
from plugformer.interfaces.spec import ModelSpec, PartSpec, Sizes
from plugformer.model.build import Builder, float32_default
from plugformer.reproducibility import random_stream

_METHODS = ("rotate", "bias", "content_bias")
"""Methods through which a positional encoding works on attention; `embed` is read by the stack."""

_LARGEST = 2**28
"""Parameters of a usual model with its sizes, up to which a model gets memory and computes a batch."""

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
    layers = sum(len(stack.layers) for stack in spec.stacks.values())
    numbers = spec.width * (spec.max_length + layers * (4 * spec.width + 2 * spec.ffn_width))
    batch = batch if numbers <= _LARGEST else None
    trial = _Trial(spec)
    try:
        with random_stream(spec.seed, "constructors"), float32_default():
            with torch.device("meta" if batch is None else "cpu"):
                model = spec.architecture.build(trial, sizes, spec.level).eval()
            if batch is not None and not trial.refused:
                with torch.no_grad():
                    model.logits(batch)
                    if targets_are_outputs(model.head):
                        model(batch)
    except (Exception, SystemExit) as error:
        if out_of_memory(error):
            raise
        return [*trial.refused.values()] or [trial.failure(error)]
    unread = (failure for key, failure in trial.unread.items() if key not in trial.read)
    return [*trial.refused.values()] or [*unread]


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
    """Makes parts that are checked when they compute.

    Attributes:
        refused: What parts refused at the first of their places that they did, by the id of the part.
        read: Encodings with an attention that calls a method through which they work, by what would be said.
        unread: The same of an attention that does not call it.
        called: The methods of encodings that the present attention has called.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.refused: dict[int, Failure] = {}
        self.read: dict[tuple[int, str], Failure] = {}
        self.unread: dict[tuple[int, str], Failure] = {}
        self.called: set[str] = set()

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
        if isinstance(component, PositionalEncoding):
            component.register_forward_pre_hook(lambda _, arguments: self.called.add(arguments[0]))
        if sublayer in ("attention", "cross_attention"):  # further ones need not read positions
            component.register_forward_pre_hook(self._begin)
            component.register_forward_hook(partial(self._note_methods, part))
        component.register_forward_hook(partial(_refuse_misshapen, self.spec.level, context))
        return component

    def failure(self, error: BaseException) -> Failure:
        """Returns an error as the failure of the innermost part that computed.

        Raises:
            BaseException: The error, if no part computed and it is not one of Plugformer's.
        """
        made = {id(component): part for component, part in self.parts}
        objects = [id(frame.f_locals.get("self")) for frame, _ in walk_tb(error.__traceback__)]
        part = next((made[each] for each in reversed(objects) if each in made), None)
        if isinstance(error, PlugformerError):
            return part, str(error)
        if part is None:
            raise error
        where = raised_in(error, str(getattr(part.make, "__module__", "")).partition(".")[0])
        return part, f"{part.label} failed: {described(error)}" + (f"\nraised in {where}" if where else "")

    def _begin(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gives an attention a context of its own, which has computed nothing yet."""
        self.called.clear()
        x, context = arguments
        return x, replace(context)

    def _note_methods(self, part: PartSpec, _: nn.Module, arguments: tuple[Any, ...], output: object) -> None:  # noqa: ARG002
        """Notes through which methods the encoding works, and whether an attention has called them."""
        context = arguments[1]
        encoding = context.query.encoding
        position = dict(self.parts)[encoding]
        for method in ("embed", *_METHODS) if context.cross else _METHODS:
            if getattr(type(encoding), method) is not getattr(PositionalEncoding, method):
                message = f"{position.label} works through `{method}`, which {part.label} never reads here"
                failure = position, f"{message}: it would make no difference; choose other ones"
                (self.read if method in self.called else self.unread)[id(position), message] = failure


def _refuse_misshapen(
    level: Level, context: Any, module: nn.Module, arguments: tuple[Any, ...], output: object
) -> None:
    """Raises RegistryError for an output with another shape or dtype than the input, or the scores, have."""

    def shown(value: object) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype} of shape {tuple(value.shape)}"
        return type(value).__name__

    method, *given = arguments if isinstance(module, Head | PositionalEncoding) else ("forward", *arguments)
    expected = given[0]
    if method == "logits" and level is not Level.VECTOR and targets_are_outputs(module):
        axes = expected.shape[: 2 if level in (Level.TOKEN, Level.NEXT_TOKEN) else 1]
        expected = expected.new_empty(*axes, context.outputs)
    elif method not in ("forward", "embed", "rotate"):
        return
    if shown(output) != shown(expected):
        name = f"{type(module).__module__}:{type(module).__qualname__}"
        raise RegistryError(f"{name}: it returns {shown(output)}, expected {shown(expected)}")
