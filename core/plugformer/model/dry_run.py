"""Tries a model before any data is read: builds it without memory, and computes a few tokens.

Each exception is attributed to the innermost part that raised it.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.generators import random_stream
from plugformer.interfaces import (
    UNKNOWN,
    Architecture,
    Attention,
    AttentionContext,
    Batch,
    Encoded,
    FeedForward,
    LayerContext,
    Level,
    Model,
    ModelContext,
    ModelSpec,
    Norm,
    PartSpec,
    PositionalEncoding,
    Ragged,
    Residual,
    Sizes,
)
from plugformer.model.build import Builder, float32_default, make, refuse_hidden_values, residual_matrices
from plugformer.model.layer import Layer
from plugformer.model.watching import replaced, watched

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""Methods through which a positional encoding works."""

_LARGEST = 2**28
"""Number of parameters up to which the model computes a batch; a larger one is only constructed."""

_Parts = Sequence[tuple[nn.Module, PartSpec]]
_Owners = Mapping[int, PartSpec]


class PartFailure(NamedTuple):
    """What is wrong with a part.

    Attributes:
        part: The part; None if it is the architecture or unknown.
        message: What is wrong; a hint may follow on lines of its own.
    """

    part: PartSpec | None
    message: str


def dry_run(spec: ModelSpec, sizes: Sizes, batch: Batch, *, targets: bool) -> list[PartFailure]:
    """Builds a model and computes a batch.

    Args:
        spec: What the model consists of.
        sizes: Sizes of its vocabulary and head, small ones.
        batch: Two examples of different lengths.
        targets: Whether the batch has targets, so that the head's loss is computed, too.

    Returns:
        The problems, each once for a part: all that constructors refuse; or else the first failure of the
        computation; or else the parts that do not fit each other.

    Raises:
        Exception: The architecture raises it while it builds the model.
    """
    failures: list[PartFailure] = []
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
            if isinstance(error, PlugformerError) and error.__cause__ is None:
                return [PartFailure(None, str(error))]
            if device == "cpu":
                return [_failure(error, _owners(builder.parts))]
            continue
        if failures := _once(_hidden_values(builder.parts)):
            return failures
        if sum(parameter.numel() for parameter in model.parameters()) > _LARGEST:
            return _once(_without_a_path(model, _owners(builder.parts)))
        if device == "meta":
            model.to_empty(device="cpu")
            with torch.no_grad():
                for tensor in (*model.parameters(), *model.buffers()):
                    tensor.fill_(0.01 if tensor.is_floating_point() else 0)
        with _one_thread():
            failures = _once(_computed(model, spec, builder.parts, batch, targets=targets))
        if not failures:
            break
    return failures


@contextmanager
def _one_thread() -> Iterator[None]:
    """Computes with one thread: waking up others takes longer than a few tokens do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def example_batch(architecture: Architecture, level: Level, *, reads: bool = True) -> Batch:
    """Returns two examples of three and two unknown tokens, with the targets 0 and 1.

    Args:
        architecture: The architecture of the model.
        level: What the model predicts from.
        reads: Whether the examples have inputs.
    """
    tokens = Ragged.of([[UNKNOWN] * 3, [UNKNOWN] * 2])
    targets = {
        Level.NEXT_TOKEN: None,
        Level.TOKEN: replace(tokens, values=np.arange(len(tokens.values)) % 2),
        Level.SEQUENCE: np.arange(2),
    }[level]
    outputs = tokens if level is Level.NEXT_TOKEN else None
    return architecture.collate(Encoded(tokens if reads else None, outputs, targets), level)


def _once(failures: Iterable[PartFailure]) -> list[PartFailure]:
    return list({(id(failure.part), failure.message): failure for failure in failures}.values())


def _refused(spec: ModelSpec) -> Iterator[PartFailure]:
    """Yields the parts that cannot be constructed, all of them, each once."""
    failed: dict[int, tuple[PartSpec, list[tuple[LayerContext, str]]]] = {}
    uses: Counter[int] = Counter()

    def attempt(part: PartSpec, context: ModelContext) -> Any:
        uses[id(part)] += 1
        with suppress(PlugformerError), torch.device("meta"):
            return make(part, context)
        try:
            return make(part, context)  # it may need values
        except PlugformerError as error:
            failed.setdefault(id(part), (part, []))[1].append((context.place, str(error)))
            return nn.Identity()

    for stack in spec.stacks.values():
        attempt(stack.position, spec.context(stack.place()))
        if stack.cross_position is not None:
            attempt(stack.cross_position, spec.context(stack.place(cross=True)))
        for number, layer in enumerate(stack.layers):
            for name, part in layer.sublayers.items():
                place = stack.place(number, cross=name == "cross_attention")
                component = attempt(part, spec.context(place))
                read = component.reads_layer if isinstance(component, Attention) else None
                if read is not None:
                    try:
                        stack.state_owner(name, number, read)
                    except PlugformerError as error:
                        failed.setdefault(id(part), (part, []))[1].append((place, str(error)))
            norm = attempt(layer.norm, spec.context(stack.place(number)))
            attempt(layer.residual, spec.residual_context(stack, number, partial(nn.Sequential, norm)))
    attempt(spec.head, spec.head_context(2, None))
    for part, refusals in failed.values():
        place, message = refusals[0]
        sentence, newline, hint = message.partition("\n")
        where = "" if len(refusals) == uses[id(part)] else f" ({place})"
        yield PartFailure(part, sentence + where + newline + hint)


def _owners(parts: _Parts) -> _Owners:
    """Returns the innermost part that each module belongs to, by the module's id."""
    owners = {id(inner): part for module, part in parts for inner in module.modules()}
    return owners | {id(module): part for module, part in parts}


def _hidden_values(parts: _Parts) -> Iterator[PartFailure]:
    """Yields parts with parameters that no `reset_parameters` draws."""
    for module, part in parts:
        try:
            refuse_hidden_values(module)
        except PlugformerError as error:
            yield PartFailure(part, str(error))


def _computed(
    model: Model, spec: ModelSpec, parts: _Parts, batch: Batch, *, targets: bool
) -> Iterator[PartFailure]:
    """Computes a batch; yields the first failure, or else the parts that do not fit each other."""
    owners = _owners(parts)
    counts = [len(list(module.parameters())) for module, _ in parts]
    with torch.no_grad(), _recorded_slots(parts) as slots:
        try:
            with watched(model, _refuse_misshapen):
                _ = model(batch) if targets else model.logits(batch)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a part may try to leave the program
            if out_of_memory(error):
                raise
            yield _failure(error, owners)
            return
    for (module, part), count in zip(parts, counts, strict=True):
        if len(list(module.parameters())) != count:
            message = f"{part.label} makes parameters while it computes, after the optimizer was made"
            yield PartFailure(part, f"{message}; make them in the constructor")
            return
    yield from _unread_slots(spec, parts, slots)
    yield from _without_a_path(model, owners)


def _refuse_misshapen(module: nn.Module, _: str, arguments: tuple[Any, ...], output: object) -> None:
    """Raises RegistryError for an output that differs from the input in shape, device, layout or dtype."""
    if not isinstance(module, Attention | FeedForward | Norm | PositionalEncoding | Residual):
        return
    name = f"{type(module).__module__}:{type(module).__qualname__}"
    if not isinstance(output, Tensor):
        raise RegistryError(f"{name}: it returns {type(output).__name__}, expected a tensor")
    for attribute in ("shape", "device", "layout", "dtype"):
        value, expected = getattr(output, attribute), getattr(arguments[0], attribute)
        if value != expected:
            if attribute == "shape":
                value, expected = tuple(value), tuple(expected)
            raise RegistryError(f"{name}: it returns the {attribute} {value}, expected {expected}")


def _failure(error: BaseException, owners: _Owners) -> PartFailure:
    """Returns an error as the failure of the innermost part in its traceback.

    A frame belongs to a part if its first argument is one of the part's modules.

    Raises:
        BaseException: The error, if no part has raised it and it is not one of Plugformer's.
    """
    part = None
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if (part := owners.get(id(first))) is not None:
            break
    if isinstance(error, PlugformerError):
        return PartFailure(part, str(error))
    if part is None:
        raise error
    where = raised_in(error, str(getattr(part.make, "__module__", "")).partition(".")[0])
    return PartFailure(part, f"{part.label} failed: {described(error)}\nraised in {where}")


@contextmanager
def _recorded_slots(parts: _Parts) -> Iterator[set[tuple[int, int, str]]]:
    """Records the slots that are read: the ids of the parts of encoding and attention, and the slot.

    For a slot that a stack reads itself, the encoding takes the place of the attention.
    """
    slots: set[tuple[int, int, str]] = set()
    readers: list[PartSpec] = []

    def attend(part: PartSpec, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            for context in arguments:
                if isinstance(context, AttentionContext):  # each attention must read what layers share
                    context.__dict__.pop("bias", None)
                    context.__dict__.pop("attn_mask", None)
            readers.append(part)
            try:
                return method(*arguments, **keywords)
            finally:
                readers.pop()

        return wrapper

    def read(part: PartSpec, slot: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            slots.add((id(part), id(readers[-1] if readers else part), slot))
            return method(*arguments, **keywords)

        return wrapper

    with ExitStack() as undo:
        for module, part in parts:
            if isinstance(module, Attention):
                for name in ("project", "attend"):
                    undo.enter_context(replaced(module, name, attend(part, getattr(module, name))))
            elif isinstance(module, PositionalEncoding):
                for name in _SLOTS:
                    undo.enter_context(replaced(module, name, read(part, name, getattr(module, name))))
        yield slots


def _unread_slots(spec: ModelSpec, parts: _Parts, slots: set[tuple[int, int, str]]) -> Iterator[PartFailure]:
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
                    default = getattr(PositionalEncoding, slot)
                    works = getattr(kinds.get(id(position), PositionalEncoding), slot) is not default
                    readers = [attention] if name == "cross_attention" else [attention, position]
                    if works and not any((id(position), id(reader), slot) in slots for reader in readers):
                        message = f"works through `{slot}`, which {attention.label} never reads here"
                        hint = "it would make no difference; choose other ones"
                        yield PartFailure(position, f"{position.label} {message}: {hint}")


def _without_a_path(model: Model, owners: _Owners) -> Iterator[PartFailure]:
    """Yields residual connections that scale initial values of sublayers without a residual path."""
    for layer in model.modules():
        if not isinstance(layer, Layer) or layer.residual.gain == 1:
            continue
        residual = owners.get(id(layer.residual))
        for component in layer.parts.values():
            part = owners.get(id(component))
            if residual and part and not any(residual_matrices(component).values()):
                yield PartFailure(
                    residual,
                    f"{residual.label} scales the initial values of the last map of each sublayer, but "
                    f"{part.label} has no matrix called {component.residual_path[-1]!r}\n"
                    "its author must name its maps in `residual_path`",
                )
