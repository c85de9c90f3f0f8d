"""Trying a model before any data is read: one build without memory, and one pass over a few tokens.

Each exception is attributed to the part that it comes from.
"""

import traceback
from collections import Counter
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
    LayerContext,
    Level,
    Model,
    ModelContext,
    ModelSpec,
    OutputType,
    PartSpec,
    PositionalEncoding,
    Ragged,
    Sizes,
    TaskType,
)
from plugformer.model.build import Builder, float32_default, make
from plugformer.model.initialization import refuse_hidden_values, residual_matrices
from plugformer.model.layer import Layer
from plugformer.model.watching import LIKE_INPUT, replaced, unlike, watched

_SLOTS = ("embed", "rotate", "bias", "content_bias")
"""Methods through which a positional encoding works."""

_NUMBERED = frozenset({OutputType.TEXT, OutputType.TOKENS, OutputType.LABEL, OutputType.TAGS})
"""Answers whose targets are numbers of outputs."""

_MODERATE = 2**26
"""Numbers in a model up to which the pass computes values; in a larger one it computes shapes alone."""


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
        self.module, self.message = module, message


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
    builder = Builder(spec)
    with random_stream(spec.seed, "constructors"), float32_default():
        try:
            with torch.device("meta"):
                model = spec.architecture.build(builder, sizes, spec.level)
        except Exception as error:
            if out_of_memory(error):
                raise
            if failures := list(_refused(spec)):
                return failures
            if isinstance(error, PlugformerError) and error.__cause__ is None:
                return [PartFailure(None, str(error))]
            return _tried_for_real(spec, sizes, batch, targets=targets)
    run = _Run(model, builder)
    if failures := list(run.hidden_values()):
        return failures
    if sum(tensor.numel() for tensor in _tensors(model)) > _MODERATE:
        with torch.device("meta"):
            return run.findings(batch.to("meta"), targets=targets)
    _give_values(model)
    failures = run.findings(batch, targets=targets)
    return failures and _tried_for_real(spec, sizes, batch, targets=targets)


def _tried_for_real(spec: ModelSpec, sizes: Sizes, batch: Batch, *, targets: bool) -> list[PartFailure]:
    """Does what `dry_run` does, with the values that constructors give: a part may need them."""
    builder = Builder(spec)
    with random_stream(spec.seed, "constructors"), float32_default():
        try:
            model = spec.architecture.build(builder, sizes, spec.level)
        except Exception as error:
            if out_of_memory(error) or (part := _blamed(error, _owners(builder.parts))) is None:
                raise
            return [_failed(part, error)]
    run = _Run(model, builder)
    return list(run.hidden_values()) or run.findings(batch, targets=targets)


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
            attempt(layer.residual, spec.residual_context(stack, number, partial(_same, norm)))
    attempt(spec.head, spec.head_context(2, None))
    for part, refusals in failed.values():
        place, message = refusals[0]
        sentence, newline, hint = message.partition("\n")
        where = "" if len(refusals) == uses[id(part)] else f" ({place})"
        yield PartFailure(part, sentence + where + newline + hint)


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _give_values(model: nn.Module) -> None:
    """Puts small tensors with values in the place of a model's tensors, which have shapes alone."""
    made: dict[int, Tensor] = {}

    def valued(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            value = 0.01 if tensor.is_floating_point() else 0
            filled = torch.full(tensor.shape, value, dtype=tensor.dtype)
            made[id(tensor)] = nn.Parameter(filled) if isinstance(tensor, nn.Parameter) else filled
        return made[id(tensor)]

    kept = list(_tensors(model))  # their numbers must not be given to others meanwhile
    for module in model.modules():
        dictionaries: tuple[dict[str, Any], ...] = (module._parameters, module._buffers, module.__dict__)
        for tensors in dictionaries:
            for name, tensor in list(tensors.items()):
                if isinstance(tensor, Tensor) and tensor.is_meta:
                    kept.append(tensor)
                    tensors[name] = valued(tensor)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Computes with one thread: waking others takes longer than a few tokens do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _filled(encoding: nn.Module) -> set[str]:
    """Returns the slots that an encoding overrides."""
    return {slot for slot in _SLOTS if getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot)}


class _Run:
    """One model and what its passes show."""

    def __init__(self, model: Model, builder: Builder) -> None:
        self.model = model.eval()
        self.parts = builder.parts
        self.owners = _owners(builder.parts)
        self.complete = True
        self.read: dict[tuple[int, int], set[str]] = {}

    def owner(self, module: object) -> PartSpec | None:
        """Returns the part that a module belongs to."""
        return self.owners.get(id(module))

    def hidden_values(self) -> Iterator[PartFailure]:
        """Yields parts with parameters that nobody would draw."""
        for module, part in {id(part): (module, part) for module, part in self.parts}.values():
            try:
                refuse_hidden_values(module)
            except PlugformerError as error:
                yield PartFailure(part, str(error))
            except Exception as error:  # an attribute may raise anything
                yield PartFailure(part, f"{part.label}: listing its parameters failed: {described(error)}")

    def findings(self, batch: Batch, *, targets: bool) -> list[PartFailure]:
        """Returns the first failure of a pass; or else which parts do not fit each other."""
        before = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        with _one_thread(), torch.no_grad():
            failure = self._pass(batch, targets=targets)
        failures = [*([failure] if failure else ()), *self.late_parameters(before)]
        return failures or [*(self.unread_slots() if self.complete else ()), *self.without_a_path()]

    def _pass(self, batch: Batch, *, targets: bool) -> PartFailure | None:
        def look(_: str, module: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
            if isinstance(module, LIKE_INPUT) and (problem := unlike(output, arguments[0])):
                raise _Misshapen(module, problem)

        try:
            with watched(self.model, look), self._readers():
                if targets:
                    self.model(batch)
                else:
                    self.model.logits(batch)
        except _Misshapen as misshapen:
            name = f"{type(misshapen.module).__module__}:{type(misshapen.module).__qualname__}"
            return PartFailure(self.owner(misshapen.module), f"{name}: {misshapen.message}")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or out_of_memory(error):
                raise
            if next(self.model.parameters()).is_meta and _needs_values(error):
                self.complete = False
                return None
            part = _blamed(error, self.owners)
            if isinstance(error, PlugformerError):
                return PartFailure(part, str(error))
            if part is None:
                raise
            return _failed(part, error)
        return None

    def late_parameters(self, before: set[str]) -> Iterator[PartFailure]:
        """Yields parts that have made parameters while they computed."""
        modules = dict(self.model.named_modules(remove_duplicate=False))
        for path, _ in self.model.named_parameters(remove_duplicate=False):
            holder = path.rpartition(".")[0]
            while path not in before and holder and self.owner(modules[holder]) is None:
                holder = holder.rpartition(".")[0]  # a module that has been made with the parameter
            if path not in before and (part := self.owner(modules[holder])) is not None:
                yield PartFailure(
                    part,
                    f"{part.label} makes the parameter {path} while it computes, when the optimizer has been "
                    "made without it: make it in the constructor",
                )
                return

    @contextmanager
    def _readers(self) -> Iterator[None]:
        """Records which attention reads which slots of an encoding."""
        asking: list[nn.Module] = []

        def wrapped(module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*arguments: Any, **keywords: Any) -> Any:
                for context in arguments:
                    if isinstance(context, AttentionContext):  # every attention asks for what layers share
                        context.__dict__.pop("bias", None)
                        context.__dict__.pop("attn_mask", None)
                asking.append(module)
                try:
                    return method(*arguments, **keywords)
                finally:
                    asking.pop()

            return wrapper

        def slot(name: str, encoding: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*arguments: Any, **keywords: Any) -> Any:
                reader = asking[-1] if asking else encoding
                self.read.setdefault((id(encoding), id(reader)), set()).add(name)
                return method(*arguments, **keywords)

            return wrapper

        with ExitStack() as undo:
            for module, _ in self.parts:
                if isinstance(module, Attention):
                    for name in ("project", "attend"):
                        undo.enter_context(replaced(module, name, wrapped(module, getattr(module, name))))
                elif isinstance(module, PositionalEncoding):
                    for name in _SLOTS:
                        undo.enter_context(replaced(module, name, slot(name, module, getattr(module, name))))
            yield

    def unread_slots(self) -> Iterator[PartFailure]:
        """Yields encodings that work through a slot which an attention never reads."""
        reported: set[tuple[int, int, str]] = set()
        for stack in self.model.stacks.values():
            for name, position in (("attention", "position"), ("cross_attention", "cross_position")):
                encoding: Any = getattr(stack, position, None)
                part = self.owner(encoding)
                if part is None:
                    continue
                for layer in _layers(stack):
                    reader = self.owner(layer.parts.get(name))
                    if reader is None:
                        continue
                    for missing in sorted(_filled(encoding) - self._read(stack, layer, name, encoding)):
                        if (id(part), id(reader), missing) not in reported:
                            reported.add((id(part), id(reader), missing))
                            yield PartFailure(
                                part,
                                f"{part.label} works through `{missing}`, which {reader.label} never reads "
                                "here: it would make no difference; choose other ones",
                            )

    def _read(self, stack: nn.Module, layer: Layer, name: str, encoding: nn.Module) -> set[str]:
        attention = layer.parts[name]
        readers = [attention, *([encoding] if name == "attention" else [])]
        if (below := layer.reads_layers.get(name)) is not None:  # its owner has projected what it reads
            readers.append(_layers(stack)[below].parts[name])
        return set().union(*(self.read.get((id(encoding), id(reader)), set()) for reader in readers))

    def without_a_path(self) -> Iterator[PartFailure]:
        """Yields residual connections that scale initial values of sublayers without a residual path."""
        reported: set[tuple[int, int]] = set()
        for module in self.model.modules():
            if not isinstance(module, Layer) or module.residual.gain == 1:
                continue
            residual = self.owner(module.residual)
            for component in module.parts.values():
                part = self.owner(component)
                if residual is None or part is None or (id(residual), id(part)) in reported:
                    continue
                reported.add((id(residual), id(part)))
                if not any(residual_matrices(component).values()):
                    yield PartFailure(
                        residual,
                        f"{residual.label} scales the initial values of what adds to the stream, but "
                        f"{part.label} has no matrix called {component.residual_path[-1]!r}\n"
                        "its author must name its maps in `residual_path`",
                    )


def _layers(stack: nn.Module) -> Sequence[Layer]:
    return cast("Sequence[Layer]", stack.layers)


def _same(module: nn.Module) -> nn.Module:
    return module


def _owners(parts: Sequence[tuple[nn.Module, PartSpec]]) -> dict[int, PartSpec]:
    """Returns the part that each module belongs to; of parts within parts, such as norms, the inner one."""
    owners = {id(inner): part for module, part in parts for inner in module.modules()}
    return owners | {id(module): part for module, part in parts}


def _blamed(error: BaseException, owners: Mapping[int, PartSpec]) -> PartSpec | None:
    """Returns the innermost part in a traceback."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if (part := owners.get(id(first))) is not None:
            return part
    return None


def _failed(part: PartSpec, error: BaseException) -> PartFailure:
    where = raised_in(error, str(getattr(part.make, "__module__", "")).partition(".")[0])
    return PartFailure(part, f"{part.label} failed: {described(error)}\nraised in {where}")


def _needs_values(error: BaseException) -> bool:
    """Returns whether an operation failed because tensors have shapes alone."""
    return isinstance(error, NotImplementedError) or "meta" in str(error).lower()
