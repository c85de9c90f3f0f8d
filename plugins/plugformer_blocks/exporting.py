"""Models as programs over plain tensors of dynamic batch and length, for `torch.export`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from plugformer.errors import NotExportableError, described
from plugformer.interfaces import Batch, Generative, HeadInput, Level, Model, Tokens, evaluating

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Tensors = Mapping[str, Shaped[Tensor, "..."]]


def tensors_of(batch: Batch) -> dict[str, Shaped[Tensor, "batch length"]]:
    """Returns the tensors that a model reads: of each sequence `ids`, `mask` and marks, named after it."""
    found: dict[str, Tensor] = {}
    for name, tokens in _sequences(batch).items():
        found |= {f"{name}_ids": tokens.ids, f"{name}_mask": tokens.mask}
        found |= {f"{name}_{mark}": value for mark, value in tokens.marks.items()}
    return found


def _sequences(batch: Batch) -> dict[str, Tokens]:
    sequences = {"source": batch.source, "target": batch.target, **batch.reads}
    return {name: tokens for name, tokens in sequences.items() if tokens.ids.numel()}


def batch_of(like: Batch, tensors: Sequence[Shaped[Tensor, "batch length"]]) -> Batch:
    """Returns a batch with other tensors, in the order of `tensors_of`, all of whose tokens are given."""
    named = dict(zip(tensors_of(like), tensors, strict=True))
    made = {}
    for name, tokens in _sequences(like).items():
        ids, mask = named[f"{name}_ids"], named[f"{name}_mask"]
        marks = {mark: named[f"{name}_{mark}"] for mark in tokens.marks}
        made[name] = Tokens(ids, mask, marks=marks)
    reads = {name: made[name] for name in like.reads if name in made}
    stacks = {name: made[name] for name in ("source", "target") if name in made}
    given = None if like.given is None else made["target"].mask.sum(dim=1)
    return replace(like, **stacks, reads=reads, given=given)  # type: ignore[arg-type]


class Whole(nn.Module):
    """The scores of a model that labels, or at level `vector` the hidden state and the vector of a text."""

    outputs: tuple[str, ...]

    def __init__(self, model: Model, like: Batch) -> None:
        super().__init__()
        self.model, self.like = model, like
        self.outputs = ("hidden", "vector") if model.level is Level.VECTOR else ("logits",)

    def forward(self, *tensors: Shaped[Tensor, "batch length"]) -> tuple[Float[Tensor, "batch ..."], ...]:
        """Returns the outputs for a batch's tensors."""
        batch = batch_of(self.like, tensors)
        if self.model.level is Level.VECTOR:
            hidden = self.model.hidden(batch)
            return hidden[:, 0], self.model.head.vectors(hidden)[:, 0]
        hidden, context = self.model.read(batch)
        if self.model.level is Level.TOKEN:
            context.real = tensors[1]
        return (self.model.head.logits(hidden, context),)


class Begin(nn.Module):
    """The scores of the first token after what is given, and the cache."""

    def __init__(self, model: Generative, like: Batch) -> None:
        super().__init__()
        self.model, self.like = model, like

    def forward(self, *tensors: Shaped[Tensor, "batch length"]) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """Returns the logits and the cache's tensors for a batch's tensors."""
        logits, cache = self.begun(batch_of(self.like, tensors))
        return logits, *cache.tensors

    def begun(self, batch: Batch) -> tuple[Float[Tensor, "batch outputs"], Any]:
        """Returns the logits and the cache."""
        cache, hidden = self.model.begin(batch)
        return _logits(self.model, hidden), cache


class Step(nn.Module):
    """The scores of the token after a new one, and the tensors of the cache that it changes.

    Attributes:
        changes: For each tensor of the cache whether a step changes it.
    """

    def __init__(self, model: Generative, like: Any) -> None:
        super().__init__()
        self.model = model
        self.like = like.rebuilt(like.tensors)
        kept = self.like.tensors
        with torch.no_grad():
            after = self._after(torch.full_like(kept[-1], 4), kept)[1]
        self.changes = [new.data_ptr() != old.data_ptr() for new, old in zip(after, kept, strict=True)]

    def forward(self, *tensors: Shaped[Tensor, "batch ..."]) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """Returns the logits and the changed tensors for a new token of every row and the cache's tensors."""
        tokens, *past = tensors
        logits, after = self._after(tokens, past)
        return logits, *(new for new, changed in zip(after, self.changes, strict=True) if changed)

    def _after(self, tokens: Tensor, past: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        cache = self.like.rebuilt(past)
        return _next(self.model, tokens, cache), list(cache.tensors)


def _next(model: Generative, tokens: Tensor, cache: Any) -> Tensor:
    """Returns the logits after a new token of every row."""
    new = Tokens(tokens[:, None], torch.ones_like(tokens, dtype=torch.bool)[:, None], full=True)
    return _logits(model, model.step(new, cache)[:, -1])


def _logits(model: Generative, hidden: Tensor) -> Tensor:
    context = HeadInput(torch.ones_like(hidden[:, :1], dtype=torch.bool))
    return model.head.logits(hidden[:, None], context)[:, 0]


@dataclass(frozen=True)
class Program:
    """A module to be traced: with example arguments, and which of their axes are dynamic.

    Attributes:
        module: What is traced.
        arguments: Its arguments, by name.
        outputs: Names of its outputs.
        dynamic: The dynamic axes of each argument.
    """

    module: nn.Module
    arguments: Tensors
    outputs: tuple[str, ...]
    dynamic: Mapping[str, tuple[int, ...]]

    @property
    def shapes(self) -> tuple[tuple[dict[int, Any], ...]]:
        """The `dynamic_shapes` of `torch.export`."""
        from torch.export import Dim

        return (tuple(dict.fromkeys(axes, Dim.DYNAMIC) for axes in self.dynamic.values()),)


def programs_of(model: Model, small: Batch, large: Batch) -> dict[str, Program]:
    """Returns what is traced of a model: `model`, or `begin` and `step` of one that generates.

    Args:
        model: The model.
        small: Questions of different length, two or more.
        large: More and longer ones.

    Raises:
        NotExportableError: The state of an attention, or the cache, is not made of tensors; or the head reads
            more than hidden states in every step of decoding.
    """
    tensors = tensors_of(small)
    axes = _different(tensors, tensors_of(large))
    if model.level is not Level.NEXT_TOKEN:
        whole = Whole(model, small)
        return {"model": Program(whole, tensors, whole.outputs, axes)}
    if model.head.reads:
        read = " and ".join(sorted(model.head.reads))
        raise NotExportableError(
            f"{type(model.head).__name__} reads {read}, which exported steps of decoding do not keep; "
            "choose another head"
        )
    begin = Begin(cast("Generative", model), small)
    with evaluating(model), exporting():
        caches = [begin.begun(batch_of(small, [*tensors_of(batch).values()]))[1] for batch in (small, large)]
        for cache, batch, more in zip(caches, (small, large), (1, 2), strict=True):
            some = torch.full_like(next(iter(tensors_of(batch).values()))[:, 0], 4)
            for _ in range(more):  # so that the lengths of the past differ
                _next(begin.model, some, cache)
        if not all(hasattr(caches[0], name) for name in ("tensors", "rebuilt")):
            raise NotExportableError(f"the cache of {type(model).__name__} lacks `tensors` or `rebuilt`")
        step = Step(begin.model, caches[0])
        kept = [cache.rebuilt(cache.tensors).tensors for cache in caches]
    past, other = ({f"past.{number}": tensor.clone() for number, tensor in enumerate(one)} for one in kept)
    present = tuple(f"present.{number}" for number, changed in enumerate(step.changes) if changed)
    tokens = torch.full((len(kept[0][0]),), 4)
    return {
        "begin": Program(
            begin, tensors, ("logits", *(name.replace("past", "present") for name in past)), axes
        ),
        "step": Program(
            step,
            {"tokens": tokens, **past},
            ("logits", *present),
            {"tokens": (0,), **_different(past, other)},
        ),
    }


def _different(small: Tensors, large: Tensors) -> dict[str, tuple[int, ...]]:
    """Returns the axes whose lengths differ."""
    pairs = {name: zip(tensor.shape, large[name].shape, strict=True) for name, tensor in small.items()}
    return {name: tuple(n for n, (a, b) in enumerate(pair) if a != b) for name, pair in pairs.items()}


def exported(program: Program, model: Model) -> "ExportedProgram":
    """Returns a program, traced in evaluation mode.

    Raises:
        NotExportableError: A part of the model cannot be traced with dynamic shapes; it names the part.
    """
    import torch.export

    training = model.training
    program.module.eval()
    try:
        with torch.no_grad():
            return torch.export.export(
                program.module, tuple(program.arguments.values()), dynamic_shapes=program.shapes, strict=False
            )
    except NotExportableError as error:
        raise NotExportableError(f"{part_of(model, error)}: {described(error)}") from error
    except Exception as error:
        raise NotExportableError(f"{part_of(model, error)} cannot be traced: {described(error)}") from error
    finally:
        model.train(training)


def part_of(model: Model, error: BaseException) -> str:
    """Returns the label of the part in which an error was raised, or the model's architecture."""
    modules = dict(model.named_modules())
    labels = {id(vars(modules[path])): part.label for path, part in model.parts.items()}
    # The exporter calls stand-ins of modules, which share their attributes.
    frames = reversed([*_frames_of(error)])
    found = [labels.get(id(getattr(frame.f_locals.get("self"), "__dict__", None))) for frame in frames]
    return next((label for label in found if label), f"architecture {type(model).__name__}")


def _frames_of(error: BaseException) -> Iterator[FrameType]:
    """Yields the frames of an error and of its causes, since what is raised again loses them."""
    cause: BaseException | None = error
    while cause is not None:
        yield from (frame for frame, _ in walk_tb(cause.__traceback__))
        cause = cause.__cause__ or cause.__context__


@contextmanager
def exporting() -> Iterator[None]:
    """A context in which `torch.compiler.is_exporting()` is true, to compute what a traced program does."""
    before = torch.compiler._is_exporting_flag
    torch.compiler._is_exporting_flag = True
    try:
        yield
    finally:
        torch.compiler._is_exporting_flag = before
