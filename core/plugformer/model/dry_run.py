"""Trying a model before any data is read: one build without memory, and one pass over a few tokens.

Each exception is attributed to the part that it comes from.
"""

import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from plugformer.errors import PlugformerError, described, out_of_memory, raised_in
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
    OutputType,
    PartSpec,
    PositionalEncoding,
    Ragged,
    Residual,
    Sizes,
    TaskType,
)
from plugformer.model.build import Builder, float32_default, make, refuse_hidden_values, residual_matrices
from plugformer.model.layer import Layer
from plugformer.model.summary import replaced, watched

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""Methods through which a positional encoding works."""

_NUMBERED = frozenset({OutputType.TEXT, OutputType.TOKENS, OutputType.LABEL, OutputType.TAGS})
"""Answers whose targets are numbers of outputs."""

_LARGEST = 2**28
"""Numbers in a model up to which the pass runs; in a larger model only constructors do."""

_Owners = Mapping[int, PartSpec]
_Readers = Mapping[tuple[int, int], set[str]]


class PartFailure(NamedTuple):
    """What is wrong with a part.

    Attributes:
        part: The part; None if it is the architecture, or nobody knows.
        message: What is wrong; a hint may follow on lines of its own.
    """

    part: PartSpec | None
    message: str


class _Misshapen(Exception):  # noqa: N818 (it ends a pass, and is caught here)
    """Carries a module and what is wrong with its output."""

    def __init__(self, module: nn.Module, message: str) -> None:
        super().__init__(message)
        self.module = module


def dry_run(spec: ModelSpec, sizes: Sizes, batch: Batch, *, targets: bool) -> list[PartFailure]:
    """Builds a model and runs it once.

    Args:
        spec: What the model consists of.
        sizes: Sizes of its vocabulary and head, small ones.
        batch: Two examples of different lengths.
        targets: Whether the batch has targets, so that the head's loss is computed, too.

    Returns:
        Every problem found, once for each part's settings: what constructors refuse; or else the first
        failure of the pass; or else which parts do not fit each other.

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
        if failures := _hidden_values(builder.parts):
            return failures
        if sum(parameter.numel() for parameter in model.parameters()) > _LARGEST:
            return list(_without_a_path(model, _owners(builder.parts)))
        if device == "meta":
            _give_values(model)
        if not (failures := _findings(model, builder.parts, batch, targets=targets)):
            break
    return failures


def sample_batch(architecture: Architecture, task_type: TaskType) -> tuple[Batch, bool]:
    """Returns an example batch for a task type, and whether it has targets."""
    reads = any(column.role == "input" for column in task_type.columns)
    batch = example_batch(architecture, task_type.level, reads=reads)
    return batch, task_type.output_type in _NUMBERED


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


def _give_values(model: nn.Module) -> None:
    """Gives small constant values to parameters and buffers, which have shapes alone."""
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(0.01 if tensor.is_floating_point() else 0)


def _owners(parts: Sequence[tuple[nn.Module, PartSpec]]) -> _Owners:
    """Returns the part that each module belongs to, by the module's id.

    Of parts within parts, such as norms, it is the inner one.
    """
    owners = {id(inner): part for module, part in parts for inner in module.modules()}
    return owners | {id(module): part for module, part in parts}


def _hidden_values(parts: Sequence[tuple[nn.Module, PartSpec]]) -> list[PartFailure]:
    """Returns parts with parameters that nobody would draw, each once."""
    failures: dict[int, PartFailure] = {}
    for module, part in parts:
        try:
            refuse_hidden_values(module)
        except PlugformerError as error:
            failures.setdefault(id(part), PartFailure(part, str(error)))
    return list(failures.values())


def _findings(
    model: Model, parts: Sequence[tuple[nn.Module, PartSpec]], batch: Batch, *, targets: bool
) -> list[PartFailure]:
    """Runs a model once; returns its first failure, or else which parts do not fit each other."""
    owners = _owners(parts)
    counts = [len(list(module.parameters())) for module, _ in parts]
    with _one_thread(), torch.no_grad(), _recorded_readers(parts) as readers:
        try:
            with watched(model, _refuse_misshapen):
                _ = model(batch) if targets else model.logits(batch)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a part may try to leave the program
            if out_of_memory(error):
                raise
            return [_failure(error, owners)]
    for (module, part), count in zip(parts, counts, strict=True):
        if len(list(module.parameters())) != count:
            message = f"{part.label} makes parameters while it computes, after the optimizer was made"
            return [PartFailure(part, f"{message}; make them in the constructor")]
    return [*_unread_slots(model, owners, readers), *_without_a_path(model, owners)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Computes with one thread: waking others takes longer than a few tokens do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _refuse_misshapen(_: str, module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
    """Raises an error for an output that differs from the input in shape, device, layout or data type."""
    if not isinstance(module, Attention | FeedForward | Norm | PositionalEncoding | Residual):
        return
    given: Tensor = arguments[0]
    if not isinstance(output, Tensor):
        raise _Misshapen(module, f"it returns {type(output).__name__}, expected a tensor")
    if output.shape != given.shape:
        raise _Misshapen(module, f"it returns the shape {tuple(output.shape)}, expected {tuple(given.shape)}")
    for name in ("device", "layout", "dtype"):
        if (value := getattr(output, name)) != (expected := getattr(given, name)):
            raise _Misshapen(module, f"it returns the {name} {value}, expected {expected}")


def _failure(error: BaseException, owners: _Owners) -> PartFailure:
    """Returns an error as the failure of the innermost part in its traceback.

    Raises:
        BaseException: The error, if no part has raised it and it is not one of Plugformer's.
    """
    if isinstance(error, _Misshapen):
        name = f"{type(error.module).__module__}:{type(error.module).__qualname__}"
        return PartFailure(owners.get(id(error.module)), f"{name}: {error}")
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
def _recorded_readers(parts: Sequence[tuple[nn.Module, PartSpec]]) -> Iterator[_Readers]:
    """Records which attention reads which slots of an encoding: by the ids of encoding and attention.

    A slot that the stack itself reads is recorded with the encoding in the place of the attention.
    """
    readers: dict[tuple[int, int], set[str]] = defaultdict(set)
    asking: list[nn.Module] = []

    def attending(module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            for context in arguments:
                if isinstance(context, AttentionContext):  # each attention must ask for what layers share
                    context.__dict__.pop("bias", None)
                    context.__dict__.pop("attn_mask", None)
            asking.append(module)
            try:
                return method(*arguments, **keywords)
            finally:
                asking.pop()

        return wrapper

    def slot(encoding: nn.Module, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            readers[id(encoding), id(asking[-1] if asking else encoding)].add(name)
            return method(*arguments, **keywords)

        return wrapper

    with ExitStack() as undo:
        for module, _ in parts:
            if isinstance(module, Attention):
                for name in ("project", "attend"):
                    undo.enter_context(replaced(module, name, attending(module, getattr(module, name))))
            elif isinstance(module, PositionalEncoding):
                for name in _SLOTS:
                    undo.enter_context(replaced(module, name, slot(module, name, getattr(module, name))))
        yield readers


def _unread_slots(model: Model, owners: _Owners, readers: _Readers) -> Iterator[PartFailure]:
    """Yields encodings that work through a slot which an attention never reads, each pair once."""
    reported: set[tuple[int, int, str]] = set()
    for stack in model.stacks.values():
        layers = cast("Sequence[Layer]", stack.layers)
        for name, position in (("attention", "position"), ("cross_attention", "cross_position")):
            encoding: Any = getattr(stack, position, None)
            part = owners.get(id(encoding))
            for layer in layers if part else ():
                attention = layer.parts.get(name)
                reader = owners.get(id(attention))
                if part is None or reader is None:
                    continue
                asking = [attention, *([encoding] if name == "attention" else [])]
                if (below := layer.reads_layers.get(name)) is not None:
                    asking.append(layers[below].parts[name])
                read = set().union(*(readers.get((id(encoding), id(module)), set()) for module in asking))
                for slot in _SLOTS:
                    works = getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot)
                    if works and slot not in read and (id(part), id(reader), slot) not in reported:
                        reported.add((id(part), id(reader), slot))
                        yield PartFailure(
                            part,
                            f"{part.label} works through `{slot}`, which {reader.label} never reads "
                            "here: it would make no difference; choose other ones",
                        )


def _without_a_path(model: Model, owners: _Owners) -> Iterator[PartFailure]:
    """Yields residual connections that scale initial values of sublayers without a residual path."""
    reported: set[tuple[int, int]] = set()
    for layer in model.modules():
        if not isinstance(layer, Layer) or layer.residual.gain == 1:
            continue
        residual = owners.get(id(layer.residual))
        for component in layer.parts.values():
            part = owners.get(id(component))
            if residual is None or part is None or (id(residual), id(part)) in reported:
                continue
            reported.add((id(residual), id(part)))
            if not any(residual_matrices(component).values()):
                yield PartFailure(
                    residual,
                    f"{residual.label} scales the initial values of the last map of each sublayer, but "
                    f"{part.label} has no matrix called {component.residual_path[-1]!r}\n"
                    "its author must name its maps in `residual_path`",
                )
