"""The contract of architectures, see plugformer.interfaces.spec."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray
from torch import Tensor, nn

from plugformer.data.encoding import sequences_of
from plugformer.errors import PlugformerError
from plugformer.interfaces import (
    BEGIN,
    END,
    PADDING,
    SPECIAL_TOKENS,
    Architecture,
    Batch,
    Context,
    Encoded,
    Generative,
    Head,
    Level,
    Model,
    Ragged,
    TaskType,
    Tokens,
    View,
)
from plugformer.registry import Kind
from plugformer.validation import fitting, reads
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import example, require_gradients
from plugformer_testing.small import (
    CASES,
    MAX_LENGTH,
    EncodedCase,
    SmallTask,
    TaskCase,
    ragged,
    small_model,
)
from plugformer_testing.subject import Subject

_GENERATED = tuple(case for case in CASES if case.level is Level.NEXT_TOKEN)
_STEPS = 3
_NOTHING = 1e-9


@dataclass(frozen=True)
class _SmallExperiment:
    """An architecture, a small model of it, built once for all checks, and the encoded examples of a case."""

    architecture: Architecture
    model: Any
    case: EncodedCase
    encoded: Encoded

    @classmethod
    def of(cls, subject: Subject, case: EncodedCase) -> "_SmallExperiment":
        architecture: Architecture = subject.create()
        if not _fits(architecture, case):
            case = _of_a_task_type(subject, architecture, case)
        make = partial(small_model, architecture, case.level, case.sizes, inputs=case.reads)
        model = subject.once((case.level, case.reads), make)
        require.that(isinstance(model, Model), f"it builds a {type(model).__name__}, expected a Model")
        return cls(architecture, model, case, case.encoded())

    def batch(
        self,
        rows: Sequence[int] | None = None,
        *,
        encoded: Encoded | None = None,
        lengths: Sequence[int] = (),
    ) -> Batch:
        """Returns a batch of the examples or of others, whose sequences have these least lengths."""
        encoded = encoded or self.encoded
        encoded = encoded if rows is None else encoded.take(np.asarray(rows))
        batch = self.architecture.collate(encoded, self.case.level, lengths=lengths)
        require.that(isinstance(batch, Batch), f"collate returns a {type(batch).__name__}, expected a Batch")
        return batch

    def states_by_row(self, batch: Batch) -> list[Tensor]:
        """Returns for each example the hidden states that something is predicted from."""
        with torch.no_grad():
            hidden, (_, real) = self.model.hidden(batch), self.model.targets(batch)
        return [states[marks] for states, marks in zip(hidden, real, strict=True)]

    def states(self, rows: Sequence[int] | None = None, **collating: Any) -> Tensor:
        """Returns the same of all examples of a batch, one after the other."""
        return torch.cat(self.states_by_row(self.batch(rows, **collating)))

    def parts(self, encoded: Encoded | None = None) -> tuple[ndarray, ndarray]:
        """Returns the lengths and the rows of each example's inputs and of its output."""
        encoded = encoded or self.encoded
        lengths = np.full((len(self.case), len(self.case.reads) + 1), -1)
        counts = np.ones_like(lengths)
        for number, part in enumerate((*encoded.inputs.values(), encoded.output)):
            if part is not None:
                lengths[:, number] = part.longest
                counts[:, number] = 1 if part.counts is None else part.counts
        return lengths, counts

    def positions(self) -> ndarray:
        """Returns the lengths of each example's sequences, as the architecture counts them."""
        lengths: ndarray = self.architecture.positions(self.parts()[0], self.case.level)
        return lengths

    def longest(self) -> list[int]:
        """Returns the longest that each sequence can be."""
        return [MAX_LENGTH] * self.positions().shape[1]


def _fits(architecture: Architecture, case: EncodedCase) -> bool:
    """Returns whether an architecture serves a level, and has something for each stack to read."""
    return case.level in architecture.levels and architecture.reads(case.reads, case.level)


def _of_a_task_type(subject: Subject, architecture: Architecture, case: EncodedCase) -> TaskCase:
    """Returns examples of an installed task type, in place of the first case of a level if it reads none."""
    cases = [other for other in CASES if other.level is case.level]
    if (
        case.level not in architecture.levels
        or case is not cases[0]
        or any(_fits(architecture, c) for c in cases)
    ):
        pytest.skip(f"it does not read {case}")
    registry = subject.registry
    for name in fitting(registry, Kind.TASK_TYPE, lambda made: made.level is case.level):
        with suppress(PlugformerError):  # a type that needs options
            task_type: TaskType = registry.create(Kind.TASK_TYPE, name)
            if reads(task_type, architecture):
                make = partial(TaskCase, case.level, (), task=SmallTask(task_type, registry=registry))
                return subject.once(("task type", case.level), make)
    tried = " or ".join(str([part.name for part in other.reads]) for other in cases)
    pytest.skip(
        f"at level {case.level} it reads neither the inputs {tried}, which the checks have, "
        "nor those of an installed task type: list a task type with its inputs in the same manifest"
    )


@contract_check()
def every_level_builds(subject: Subject) -> None:
    """It serves one level at least, and builds a model of each, with a head and the stacks it declares."""
    architecture: Architecture = subject.create()
    declared = [name for name, _ in architecture.stacks]
    require.that(architecture.levels, "it serves no level")
    unique = declared and len(set(declared)) == len(declared)
    require.that(unique, f"its stacks are {declared}, expected different names")
    for level in sorted(architecture.levels):
        cases = [case for case in CASES if case.level is level]
        require.that(cases, f"it serves {level!r}, which is no level; levels are {', '.join(Level)}")
        case = next((case for case in cases if _fits(architecture, case)), cases[0])
        small = _SmallExperiment.of(subject, case)
        require.that(isinstance(getattr(small.model, "head", None), Head), f"its {level} model has no head")
        require.equal(set(small.model.stacks), set(declared), f"the stacks of its model for {level}")
        generates = isinstance(small.model, Generative) or level is not Level.NEXT_TOKEN
        require.that(generates, f"its model for {level} is no Generative: decoding cannot begin or step")
        require.finite(small.model(small.batch()).total, f"the loss of a model for {level}")


@contract_check(cases=CASES, given=_SmallExperiment.of)
def sequences_are_padded_as_asked(small: _SmallExperiment) -> None:
    """Each sequence has the length asked for, with marked padding on the right.

    The lengths are those of source, target and other sequences, in the order of `positions`.
    """
    longest = small.positions().max(axis=0)
    asked = [int(length) + number for number, length in enumerate(longest, 1)]
    for lengths in ((), asked):
        sequences = _sequences(small.batch(lengths=lengths))
        for tokens in sequences:
            real, rows = tokens.mask, small.case.rows
            expected = len(small.case) if tokens.rows_of is None else sum(map(len, rows))
            require.equal(len(real), expected, "the number of rows")
            require.that((tokens.ids[~real] == PADDING).all(), "padding has ids other than PADDING")
            require.that((real.long().diff(dim=1) <= 0).all(), "padding is not on the right")
            require.that(real.all() or not tokens.full, "a batch with padding is declared as `full`")
    found = [tokens.ids.shape[1] for tokens in sequences]
    require.equal(found, asked, "the lengths of the sequences")


def _sequences(batch: Batch) -> list[Tokens]:
    return [tokens for tokens in batch.sequences if tokens.ids.numel()]


@contract_check(cases=CASES, given=_SmallExperiment.of)
def targets_are_those_of_the_examples(small: _SmallExperiment) -> None:
    """Each example has its own targets, in order, once.

    At next-token these are the tokens of the output, and END behind one that is complete; at token those of
    the input that have one; at sequence the example's own.
    """
    encoded, own = small.encoded, small.encoded.targets
    if isinstance(own, np.ndarray):
        expected = own.tolist()
    elif isinstance(own, Ragged):
        expected = [[target for target in row if target is not None] for row in own.rows()]
    else:
        rows = encoded.output.rows() if encoded.output else []
        expected = [[*row, *[END] * encoded.complete] for row in rows]
    for lengths in ((), small.longest()):
        batch = small.batch(lengths=lengths)
        targets, real = small.model.targets(batch)
        by_row = [row[marks].tolist() for row, marks in zip(targets, real, strict=True) if row.dim()]
        require.equal(by_row or targets.tolist(), expected, "what targets gives")
        hidden = small.model.hidden(batch)
        require.equal(hidden.shape[:2], real.shape, "the shape of hidden states, by that of targets,")


@contract_check(cases=CASES, given=_SmallExperiment.of)
def examples_are_independent(small: _SmallExperiment) -> None:
    """An example has the same hidden states in a batch as alone, in any order of the batch, however padded.

    The loss of a batch and its number of targets are the sums of those of its examples.
    """
    alone = [small.states([row]) for row in range(len(small.case))]
    for order, lengths in product(([0, 1, 2], [2, 0, 1]), ((), small.longest())):
        expected = torch.cat([alone[row] for row in order])
        states = small.states(order, lengths=lengths)
        require.close(states, expected, "an example's hidden states change with others or with padding")
    whole, parts = small.model(small.batch()), [small.model(small.batch([row])) for row in range(3)]
    counts = sum(int(part.targets) for part in parts)
    found = int(whole.targets), small.model.count(small.batch())
    require.equal(found, (counts, counts), "the number of targets of a batch, and by `count`,")
    total = torch.stack([part.total for part in parts]).sum()
    require.close(whole.total, total, "the losses of examples do not add up")


@contract_check(cases=CASES, given=_SmallExperiment.of)
def nothing_reads_what_it_predicts(small: _SmallExperiment) -> None:
    """No hidden state depends on its own target or a later one."""
    targets, blank = small.encoded.targets, None
    if isinstance(targets, Ragged):
        blank = Ragged(np.zeros_like(targets.values), targets.lengths).only(targets.present)
    without = small.batch(encoded=replace(small.encoded, targets=blank))
    one, two = (small.model.hidden(batch) for batch in (without, small.batch()))
    require.close(one, two, "hidden states change with the targets")
    for row, length in enumerate(small.case.outputs):
        alone = small.encoded.take(np.array([row]))
        states = small.states(encoded=alone)
        for place in range(length):
            changed = small.states(encoded=_with_other_token(alone, "output", place))[: place + 1]
            require.close(changed, states[: place + 1], "hidden states before a token change with it")


@contract_check(cases=CASES, given=_SmallExperiment.of)
def all_that_is_given_is_read(small: _SmallExperiment) -> None:
    """Another first token of the input, of the output or of its beginning changes the hidden states.

    Or it changes marks of tokens, which a model's views and positional encodings may read.
    """
    for part in _parts(small.encoded):
        encoded = _with_other_token(small.encoded, part, 0)
        same = torch.allclose(small.states(encoded=encoded), small.states(), atol=1e-9)
        marked = _marks(small.batch(encoded=encoded)) != _marks(small.batch())
        require.that(marked or not same, f"no hidden state changes with the first token of the {part}")


def _marks(batch: Batch) -> list[Any]:
    return [marks.tolist() for tokens in _sequences(batch) for marks in tokens.marks.values()]


def _with_other_token(encoded: Encoded, part: str, place: int) -> Encoded:
    """Returns examples with another ordinary token at a place of a part, all of them end to end."""
    sequences = _parts(encoded)[part]
    values = sequences.values.copy()
    values[place] += -1 if values[place] > len(SPECIAL_TOKENS) else 1
    changed = replace(sequences, values=values)
    if part in encoded.inputs:
        return replace(encoded, inputs={**encoded.inputs, part: changed})
    other: dict[str, Any] = {part: changed}
    return replace(encoded, **other)


def _parts(encoded: Encoded) -> dict[str, Ragged]:
    """Returns the tokens of inputs by name, of `output` and of `start`, if there are any."""
    return encoded.parts if encoded.start is None else {**encoded.parts, "start": encoded.start}


@contract_check(cases=CASES, given=_SmallExperiment.of)
def every_parameter_gets_a_gradient(small: _SmallExperiment) -> None:
    """Every parameter of its model takes part in the loss, and has a finite gradient."""
    require_gradients(small.model, small.model(small.batch()).total)


@contract_check(cases=CASES, given=_SmallExperiment.of)
def positions_cover_a_batch(small: _SmallExperiment) -> None:
    """`positions` times `rows` are at least as many as a batch has, with outputs and without."""
    case = small.case
    without = replace(small.encoded, output=None)
    for examples in (small.encoded, without) if case.inputs else (small.encoded,):
        lengths, counts = small.parts(examples)
        for rows in ([0], [1], [2], [0, 1, 2]):
            found = sum(tokens.ids.numel() for tokens in _sequences(small.batch(rows, encoded=examples)))
            positions, times = sequences_of(small.architecture, lengths[rows], counts[rows], case.level)
            most = int((positions.max(axis=0) * np.broadcast_to(times, positions.shape).sum(axis=0)).sum())
            require.that(found <= most, f"positions and rows make {most}, a batch has {found} positions")


@contract_check(cases=_GENERATED)
def continuing_equals_reading(subject: Subject, case: EncodedCase) -> None:
    """Token by token, hidden states are those of one pass, also for questions of different length in a batch.

    The same holds after rows were selected, and after one row has taken the place of another of the same
    example.
    """
    if Level.NEXT_TOKEN not in subject.create().levels:
        return
    small = _SmallExperiment.of(subject, case)
    encoded = replace(small.encoded, output=ragged((_STEPS,) * len(case), 2), complete=True)
    if not case.inputs:
        begin = Ragged.repeated(BEGIN, len(case))
        encoded = replace(encoded, start=begin.followed_by(ragged((3, 1, 4), 3)))
    small = replace(small, encoded=encoded)
    rows = small.states_by_row(small.batch())
    continuations: Any = small.encoded.output
    outputs = torch.tensor(continuations.rows())
    with torch.no_grad():
        past, found = small.model.begin(small.batch(encoded=replace(small.encoded, output=None)))
        first = torch.stack([states[0] for states in rows])
        require.close(found, first, "what `begin` returns differs from reading all at once")
        # Each example twice: one row goes wrong, and then takes the place of the other.
        order = [2, 2, 0, 0, 1, 1]
        past.select(torch.tensor(order), torch.tensor([2, 0, 1]))
        right = outputs[order, 0]
        wrong = torch.where(right > 4, right - 1, right + 1)
        small.model.step(_one(torch.where(torch.arange(6) % 2 == 0, right, wrong)), past)
        past.select(torch.tensor([0, 0, 2, 2, 4, 4]))
        past.select(torch.tensor([1, 3]), torch.tensor([0, 1]))
        order = [2, 0]
        for step in range(1, _STEPS):
            found = small.model.step(_one(outputs[order, step]), past)[:, -1]
            expected = torch.stack([rows[row][step + 1] for row in order])
            require.close(found, expected, "after rows were selected, a step differs from one pass")


@contract_check()
def the_view_is_what_it_says(subject: Subject) -> None:
    """A state of a stack with one layer depends on another token if and only if the stack's view allows it.

    At each level some state depends on a later token, unless the view is `causal`.
    """
    architecture: Architecture = subject.create()
    ahead: dict[tuple[str, View, Level], bool] = {}
    for case in [case for case in CASES if _fits(architecture, case)]:
        model = small_model(architecture, case.level, case.sizes, layers=1)
        small = _SmallExperiment(architecture, model, case, case.encoded())
        for name, view in architecture.stacks:
            context, seen = _dependence(model.stacks[name], model, small.batch())
            mask = Context(context.query, context.key, view=view).mask[:, 0]
            others = ~torch.eye(seen.shape[1], dtype=torch.bool).expand_as(seen)
            others = others if context.real is None else others & context.real[:, :, None]
            wrong = others & (seen != mask)
            if wrong.any():
                row, one, other = wrong.nonzero()[0].tolist()
                depends = "depends" if seen[row, one, other] else "does not depend"
                pytest.fail(f"in the {name} token {one} {depends} on {other}, unlike {view}", pytrace=False)
            later = bool((seen & others).triu(1).any())
            ahead[name, view, case.level] = ahead.get((name, view, case.level), False) or later
    for (name, view, level), later in ahead.items():
        what = f"at {level}, whether a token of the {name} sees a later one, unlike a causal view,"
        require.equal(later, not view.causal, what)


def _dependence(stack: nn.Module, model: Model, batch: Batch) -> tuple[Context, Tensor]:
    """Returns what the first layer of a stack receives, and which of the stack's states depend on which."""
    received: list[Any] = []

    def receive(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        received[:] = [arguments[0].detach().requires_grad_(), arguments[1]]
        return (received[0], *arguments[1:])

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        received.append(getattr(output, "hidden", output))

    layers: Any = stack.layers
    with layers[0].register_forward_pre_hook(receive), stack.register_forward_hook(keep):
        model.hidden(batch)
    x, context, output = received
    states = (output * example(*output.shape, dtype=output.dtype)).sum(dim=(0, 2))
    gradients = [torch.autograd.grad(state, x, retain_graph=True)[0] for state in states]
    return context, torch.stack([gradient.abs().sum(dim=2) > _NOTHING for gradient in gradients], dim=1)


def check_residual(name: str, case: EncodedCase, residual: type, options: Mapping[str, Any]) -> None:
    """Checks a built-in architecture in whose layers another residual connection joins the sublayers."""
    subject = Subject.of(f"architecture/{name}")
    make = partial(small_model, subject.create(), case.level, case.sizes, inputs=case.reads)
    subject.once((case.level, case.reads), lambda: make(residual=(residual, options)))
    small = _SmallExperiment.of(subject, case)
    require.that(residual in {part.make for part in small.model.parts.values()}, "it is in no layer")
    for check in (examples_are_independent, nothing_reads_what_it_predicts):
        check.function(small)
    if case in _GENERATED:
        continuing_equals_reading.function(subject, case)


def _one(ids: Tensor) -> Tokens:
    return Tokens(ids[:, None], torch.ones(len(ids), 1, dtype=torch.bool), full=True)
