"""Tries a model before any data is read: builds it without memory, and computes a few tokens.

Each exception is attributed to the innermost part that raised it.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
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
from plugformer.model.build import Builder, float32_default, make
from plugformer.model.watching import watched

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""Methods through which a positional encoding works."""

_NUMBERED = frozenset({OutputType.TEXT, OutputType.TOKENS, OutputType.LABEL, OutputType.TAGS})
"""Answers whose targets are numbers of outputs, so that the loss can be computed, too."""

_LARGEST = 2**28
"""Number of parameters up to which the model computes a batch; a larger one is only constructed."""

Failure = tuple[PartSpec | None, str]
"""A part and what is wrong with it; None for the architecture."""

Method = Callable[..., Any]
_Parts = Sequence[tuple[nn.Module, PartSpec]]
_Slots = set[tuple[int, int, str]]


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
        builder = Builder(spec)
        try:
            with random_stream(spec.seed, "constructors"), float32_default(), torch.device(device):
                model = spec.architecture.build(builder, sizes, spec.level).eval()
        except Exception as error:
            if out_of_memory(error):
                raise
            if failures := list(_refused(spec)):
                return failures
            if device == "cpu":
                return [_failure(error, builder.parts)]
            continue
        if batch is None or sum(parameter.numel() for parameter in model.parameters()) > _LARGEST:
            return []
        if device == "meta":
            model.to_empty(device="cpu")
            with torch.no_grad():
                for tensor in (*model.parameters(), *model.buffers()):
                    tensor.fill_(0.01 if tensor.is_floating_point() else 0)
        if not (failures := _computed(model, spec, builder.parts, batch)):
            break
    return list({(id(part), message): (part, message) for part, message in failures}.values())


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


def _refused(spec: ModelSpec) -> Iterator[Failure]:
    """Yields the parts that cannot be constructed at one of their places, all of them."""
    made: set[int] = set()
    failed: dict[int, Failure] = {}

    def attempt(part: PartSpec, context: ModelContext, name: str = "") -> None:
        place = context.place
        try:
            try:
                with torch.device("meta"):
                    component = make(part, context)
            except PlugformerError:
                component = make(part, context)  # it may need values
            if isinstance(component, Attention) and component.reads_layer is not None:
                spec.stacks[place.stack].state_owner(place, component.reads_layer, name)
            made.add(id(part))
        except PlugformerError as error:
            where = f"{place}: " if id(part) in made else ""
            failed.setdefault(id(part), (part, f"{where}{error}"))

    for stack in spec.stacks.values():
        attempt(stack.position, spec.context(stack.place()))
        if stack.cross_position is not None:
            attempt(stack.cross_position, spec.context(stack.place(cross=True)))
        for number, layer in enumerate(stack.layers):
            for name, part in layer.sublayers.items():
                attempt(part, spec.context(stack.place(number, cross=name == "cross_attention")), name)
            attempt(layer.norm, spec.context(stack.place(number)))
            attempt(layer.residual, spec.residual_context(stack, number, nn.Identity))
    attempt(spec.head, spec.head_context(2, None))
    yield from failed.values()


def _computed(model: Model, spec: ModelSpec, parts: _Parts, batch: Batch) -> list[Failure]:
    """Computes a batch; returns the first failure, or else the encodings that make no difference."""
    slots = _recorded_slots(parts)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waking up others takes longer than a few tokens do
    try:
        with torch.no_grad(), watched(model, _refuse_misshapen):
            _ = model.logits(batch) if model.head.output_types.isdisjoint(_NUMBERED) else model(batch)
    except (Exception, SystemExit) as error:
        if out_of_memory(error):
            raise
        return [_failure(error, parts)]
    finally:
        torch.set_num_threads(threads)
    return list(_unread_slots(spec, parts, slots))


def _refuse_misshapen(module: nn.Module, _: str, arguments: tuple[Any, ...], output: object) -> None:
    """Raises RegistryError for an output that differs from the input in shape or dtype."""

    def shown(value: object) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype} of shape {tuple(value.shape)}"
        return type(value).__name__

    if isinstance(module, Attention | FeedForward | Norm | PositionalEncoding | Residual):
        returned, expected = shown(output), shown(arguments[0])
        if returned != expected:
            name = f"{type(module).__module__}:{type(module).__qualname__}"
            raise RegistryError(f"{name}: it returns {returned}, expected {expected}")


def _failure(error: BaseException, parts: _Parts) -> Failure:
    """Returns an error as the failure of the innermost part in its traceback.

    A frame belongs to a part if its first argument is one of the part's modules.

    Raises:
        BaseException: The error, if no part has raised it and it is not one of Plugformer's.
    """
    part = None
    owners = {id(inner): part for module, part in parts for inner in module.modules()}
    owners |= {id(module): part for module, part in parts}
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if (part := owners.get(id(first))) is not None:
            break
    if isinstance(error, PlugformerError):
        return part, str(error)
    if part is None:
        raise error
    where = raised_in(error, str(getattr(part.make, "__module__", "")).partition(".")[0])
    return part, f"{part.label} failed: {described(error)}\nraised in {where}"


def _recorded_slots(parts: _Parts) -> _Slots:
    """Lets a model record the slots that are read: ids of the encoding and of the attention, and the slot.

    For a slot that a stack reads itself, the encoding takes the place of the attention.
    """
    slots: _Slots = set()
    readers: list[PartSpec] = []

    def attend(part: PartSpec, method: Method, *arguments: Any, **keywords: Any) -> Any:
        for context in arguments:
            if isinstance(context, Context):  # each attention must read what layers share
                context.__dict__.pop("bias", None)
                context.__dict__.pop("attn_mask", None)
        readers.append(part)
        output = method(*arguments, **keywords)
        readers.pop()
        return output

    def read(part: PartSpec, slot: str, method: Method, *arguments: Any, **keywords: Any) -> Any:
        slots.add((id(part), id(readers[-1] if readers else part), slot))
        return method(*arguments, **keywords)

    for module, part in parts:
        if isinstance(module, Attention):
            module.__dict__["forward"] = partial(attend, part, module.forward)
        elif isinstance(module, PositionalEncoding):
            for name in _SLOTS:
                module.__dict__[name] = partial(read, part, name, getattr(module, name))
    return slots


def _unread_slots(spec: ModelSpec, parts: _Parts, slots: _Slots) -> Iterator[Failure]:
    """Yields encodings that work through a slot which an attention never reads."""
    kinds = {id(part): type(module) for module, part in parts}
    for stack in spec.stacks.values():
        positions = {"attention": stack.position, "cross_attention": stack.cross_position}
        for layer in stack.layers:
            for name, position in positions.items():
                attention = layer.sublayers.get(name)
                if position is None or attention is None or id(attention) not in kinds:
                    continue
                for slot in _SLOTS:
                    works = getattr(kinds[id(position)], slot) is not getattr(PositionalEncoding, slot)
                    readers = {(id(position), id(part), slot) for part in (attention, position)}
                    if works and not readers & slots:
                        message = f"works through `{slot}`, which {attention.label} never reads here"
                        hint = "it would make no difference; choose other ones"
                        yield position, f"{position.label} {message}: {hint}"
