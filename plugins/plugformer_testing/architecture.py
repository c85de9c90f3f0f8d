"""The contract of architectures: see plugformer.interfaces.architecture."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.errors import LengthError
from plugformer.interfaces import (
    BEGIN,
    END,
    IGNORED,
    PADDING,
    SPECIAL_TOKENS,
    Architecture,
    Batch,
    Encoded,
    Generative,
    Head,
    Level,
    Model,
    Padding,
    Ragged,
    Side,
    Tokens,
)
from plugformer_testing.check import NotApplicable, check, fail, require, require_close, require_finite
from plugformer_testing.probes import gradients
from plugformer_testing.small_models import MAX_LENGTH, READINGS, Reading, ragged, small_model, taken
from plugformer_testing.subject import Subject

CONTINUED = tuple(reading for reading in READINGS if reading.level is Level.NEXT_TOKEN)

_SIDES: tuple[Side, ...] = ("right", "left")
_STEPS = 3


class Trial:
    """An architecture that reads some examples.

    Attributes:
        reading: The examples.
        encoded: The same as a task's type encodes them.
        architecture: The architecture.

    Args:
        subject: The architecture's class and options.
        reading: The examples.
        position: The positional encoding of its model.

    Raises:
        NotApplicable: The architecture does not read them.
    """

    def __init__(self, subject: Subject, reading: Reading, position: str = "rope") -> None:
        self.architecture: Architecture = subject.create()
        self.reading, self.encoded, self._position = reading, reading.encoded(), position
        if not _fits(self.architecture, reading):
            raise NotApplicable(f"it does not read {reading}")

    @cached_property
    def model(self) -> Model:
        """A small model of it."""
        sizes, level = self.reading.sizes, self.reading.level
        model = small_model(self.architecture, level, sizes, position=self._position)
        require(isinstance(model, Model), f"it builds a {type(model).__name__}, expected a Model")
        return model

    def batch(
        self,
        rows: Sequence[int] | None = None,
        *,
        encoded: Encoded | None = None,
        side: Side = "right",
        length: int | None = None,
    ) -> Batch:
        """Returns a batch of the examples, or of others.

        Args:
            rows: Which of them, in which order; all if None.
            encoded: The others.
            side: Where padding is to stand.
            length: Least length of a sequence.
        """
        encoded = encoded or self.encoded
        encoded = encoded if rows is None else taken(encoded, rows)
        batch = self.architecture.collate(encoded, self.reading.level, side=side, length=length)
        require(isinstance(batch, Batch), f"collate returns a {type(batch).__name__}, expected a Batch")
        return batch

    def states_by_row(self, batch: Batch) -> list[Float[Tensor, "states width"]]:
        """Returns the hidden states that something is predicted from, for each example."""
        with torch.no_grad():
            hidden, (_, real) = self.model.hidden(batch), self.model.targets(batch)
        return [states[marks] for states, marks in zip(hidden, real, strict=True)]

    def states(
        self, rows: Sequence[int] | None = None, *, encoded: Encoded | None = None
    ) -> Float[Tensor, "states width"]:
        """Returns the same of all examples of a batch, one after the other."""
        return torch.cat(self.states_by_row(self.batch(rows, encoded=encoded)))


@check()
def every_level_builds(subject: Subject) -> None:
    """It serves one level at least, and builds a model of each, with a head and the stacks it declares."""
    architecture: Architecture = subject.create()
    declared = [stack.name for stack in architecture.stacks]
    require(len(architecture.levels) > 0, "it serves no level")
    unique = bool(declared) and len(set(declared)) == len(declared)
    require(unique, f"its stacks are {declared}, expected names")
    for level in sorted(architecture.levels):
        reading = next((each for each in READINGS if each.level is level and _fits(architecture, each)), None)
        if reading is None:
            fail(f"it serves {level!r}, which is no level")
        trial = Trial(subject, reading)
        model = trial.model
        require(isinstance(getattr(model, "head", None), Head), f"its model for {level} has no head")
        what = f"its model for {level} has the stacks {sorted(model.stacks)}"
        require(set(model.stacks) == set(declared), f"{what}, it declares {sorted(declared)}")
        if level is Level.NEXT_TOKEN:
            _require_generative(model)
        require_finite(model(trial.batch()).total, f"the loss of a model for {level} is not finite")


@check(READINGS)
def sequences_are_padded_as_asked(subject: Subject, reading: Reading) -> None:
    """Padding stands on the side asked for, is marked as such, and sequences have the least length asked for.

    Each example has a row, in order.
    """
    trial = Trial(subject, reading)
    for side, least in product(_SIDES, (0, MAX_LENGTH)):
        sequences = _sequences(trial.batch(side=side, length=least or None))
        for name, tokens in sequences.items():
            _require_padded(name, tokens, len(reading), side)
        longest = max((tokens.ids.shape[1] for tokens in sequences.values()), default=0)
        require(longest >= least, f"of a least length of {least} the longest sequence has {longest}")


@check(READINGS)
def targets_are_those_of_the_examples(subject: Subject, reading: Reading) -> None:
    """Each example's targets are what is to be predicted of it, in order, once, wherever padding stands.

    At next-token the tokens of the output, and END behind one that is complete; at token those of the input
    that are not IGNORED; at sequence the example's own.
    """
    trial = Trial(subject, reading)
    for side in _SIDES:
        batch = trial.batch(side=side)
        targets, real = trial.model.targets(batch)
        if isinstance(trial.encoded.targets, np.ndarray):
            found, expected = targets.tolist(), trial.encoded.targets.tolist()
        else:
            found = [row[marks].tolist() for row, marks in zip(targets, real, strict=True)]
            expected = _expected(trial.encoded)
        what = f"with padding on the {side} the targets are {found}"
        require(found == expected, f"{what}, expected {expected}")
        hidden = trial.model.hidden(batch)
        what = f"there are hidden states of shape {tuple(hidden.shape)}"
        require(hidden.shape[:2] == real.shape, f"{what}, and targets ask for {tuple(real.shape)}")


@check(READINGS)
def padding_changes_nothing(subject: Subject, reading: Reading) -> None:
    """On the other side, or more of it: the same loss, from the same hidden states."""
    trial = Trial(subject, reading)
    states, loss = trial.states(), trial.model(trial.batch()).total
    for side, length in product(_SIDES, (None, MAX_LENGTH)):
        batch = trial.batch(side=side, length=length)
        what = f"with padding on the {side}{', more of it' if length else ''},"
        require_close(torch.cat(trial.states_by_row(batch)), states, f"{what} hidden states differ")
        require_close(trial.model(batch).total, loss, f"{what} the loss differs")


@check(READINGS)
def neighbors_change_nothing(subject: Subject, reading: Reading) -> None:
    """An example has the hidden states in a batch that it has alone, in any order of the batch."""
    trial = Trial(subject, reading)
    alone = [trial.states([row]) for row in range(len(reading))]
    for order in ([0, 1, 2], [2, 0, 1]):
        expected = torch.cat([alone[row] for row in order])
        require_close(trial.states(order), expected, "an example's hidden states change with others")


@check(READINGS)
def losses_add_up(subject: Subject, reading: Reading) -> None:
    """The loss of a batch and its number of targets are the sums of those of its examples."""
    trial = Trial(subject, reading)
    whole = trial.model(trial.batch())
    parts = [trial.model(trial.batch([row])) for row in range(len(reading))]
    counts = [int(part.targets) for part in parts]
    if not sum(counts) == int(whole.targets) == trial.model.count(trial.batch()):
        fail(f"the examples have {counts} targets, the batch {int(whole.targets)}")
    total = torch.stack([part.total for part in parts]).sum()
    require_close(whole.total, total, "the losses of examples do not add up")


@check(READINGS)
def nothing_reads_what_it_predicts(subject: Subject, reading: Reading) -> None:
    """No hidden state depends on its own target or a later one."""
    trial = Trial(subject, reading)
    targets, blank = trial.encoded.targets, None
    if isinstance(targets, Ragged):
        blank = Ragged(np.where(targets.values == IGNORED, IGNORED, 0), targets.lengths)
    other = replace(trial.encoded, targets=blank)
    one, two = (trial.model.hidden(trial.batch(encoded=each)) for each in (other, trial.encoded))
    require_close(one, two, "hidden states change with the targets")
    for row, length in enumerate(reading.outputs):
        alone = taken(trial.encoded, [row])
        states = trial.states(encoded=alone)
        for place in range(length):
            changed = trial.states(encoded=_with_other_token(alone, "output", place))
            what = f"hidden states before token {place} of an output change with it"
            require_close(changed[: place + 1], states[: place + 1], f"{what}: the future leaks")


@check(READINGS)
def all_that_is_given_is_read(subject: Subject, reading: Reading) -> None:
    """Another token of the input, or before what is predicted of the output, changes the hidden states."""
    trial = Trial(subject, reading)
    states = trial.states()
    for part in ("input", "output", "start"):
        if getattr(trial.encoded, part) is not None:
            now = trial.states(encoded=_with_other_token(trial.encoded, part, 0))
            same = torch.allclose(now, states, atol=1e-9)
            require(not same, f"no hidden state changes with the first token of the {part}")


@check(READINGS)
def every_parameter_gets_a_gradient(subject: Subject, reading: Reading) -> None:
    """Every parameter of its model takes part in the loss, and has a finite gradient."""
    trial = Trial(subject, reading)
    found = gradients(trial.model, trial.model(trial.batch()).total)
    for name, _ in trial.model.named_parameters():
        require(name in found, f"{name} gets no gradient: it takes no part in the loss")
        require_finite(found[name], f"the gradient of {name} is not finite")


@check(READINGS)
def positions_cover_a_batch(subject: Subject, reading: Reading) -> None:
    """`positions` are no fewer than a batch has columns, with outputs and of questions."""
    trial = Trial(subject, reading)
    encoded = trial.encoded
    absent = np.full(len(reading), -1)
    for examples in (encoded, replace(encoded, output=None)) if reading.inputs else (encoded,):
        parts = (examples.input, examples.output)
        lengths = np.stack([absent if part is None else part.lengths for part in parts], axis=1)
        for rows in ([0], [1], [2], [0, 1, 2]):
            batch = trial.batch(rows, encoded=examples)
            columns = sum(tokens.ids.shape[1] for tokens in _sequences(batch).values())
            said = int(trial.architecture.positions(lengths[rows], reading.level).max(axis=0).sum())
            what = f"positions says {said} for tokens {lengths[rows].tolist()}"
            require(columns <= said, f"{what}, a batch of them has {columns}")


@check(READINGS)
def limits_are_honest(subject: Subject, reading: Reading) -> None:
    """An example with as many tokens as `limits` allows runs where there are just `max_length` positions."""
    trial = Trial(subject, reading, position="learned")
    limits = trial.architecture.limits(MAX_LENGTH, reading.level)
    cases = [(limits.input, limits.output)]
    if reading.inputs and reading.outputs:  # together they may have less
        longest_output = min(limits.output, limits.together - 1)
        cases = [
            (limits.input, min(limits.output, limits.together - limits.input)),
            (min(limits.input, limits.together - longest_output), longest_output),
        ]
    for given, output in cases:
        inputs, outputs = (given,) * bool(reading.inputs), (output,) * bool(reading.outputs)
        sound = max(inputs + outputs) > 0 <= min(inputs + outputs)
        require(sound, f"limits are {limits}: no example has so few tokens")
        longest = replace(reading, inputs=inputs, outputs=outputs)
        try:
            trial.model(trial.batch(encoded=longest.encoded()))
        except LengthError as error:
            fail(f"{longest} keeps to the limits {tuple(limits)} of {MAX_LENGTH} positions, but: {error}")


@check(CONTINUED)
def continuing_equals_reading(subject: Subject, reading: Reading) -> None:
    """Token by token, hidden states are those of one pass: for questions of different length in a batch.

    Also after rows were selected, and after one row has taken the place of another of the same example.
    """
    if (asking := _asked(subject, reading)) is None:
        return
    trial, model, asked = asking
    rows = trial.states_by_row(trial.batch())
    continuations: Any = trial.encoded.output
    outputs = torch.tensor(continuations.rows())
    with torch.no_grad():
        past, last = model.begin(asked)
        first = torch.stack([states[0] for states in rows])
        found = model.step(_one(last), past)[:, -1]
        require_close(found, first, "the first step differs from reading all at once")
        # Each example twice: one row goes wrong, and then takes the place of the other.
        order = [2, 2, 0, 0, 1, 1]
        past.select(torch.tensor(order))
        right = outputs[order, 0]
        wrong = torch.where(right > 4, right - 1, right + 1)
        model.step(_one(torch.where(torch.arange(6) % 2 == 0, right, wrong)), past)
        past.reorder(torch.tensor([0, 0, 2, 2, 4, 4]))
        past.select(torch.tensor([1, 3, 4]))
        order = [2, 0, 1]
        for step in range(1, _STEPS):
            expected = torch.stack([rows[row][step + 1] for row in order])
            found = model.step(_one(outputs[order, step]), past)[:, -1]
            what = f"step {step + 1}, after rows were selected,"
            require_close(found, expected, f"{what} differs from reading all at once")


@check(CONTINUED)
def there_is_room_for_an_output(subject: Subject, reading: Reading) -> None:
    """Outputs as long as `room` says run in one pass; inputs have as many tokens as `input_lengths` says."""
    if (asking := _asked(subject, reading, position="learned")) is None:
        return
    trial, model, asked = asking
    encoded = trial.encoded
    given = encoded.input or encoded.start
    special = 0 if encoded.input is not None else 1  # BEGIN in front of what is to be continued
    if given is not None:
        found = model.input_lengths(asked).tolist()
        expected = (given.lengths - special).tolist()
        require(found == expected, f"input_lengths gives {found}, the inputs have {expected} tokens")
    room = model.room(asked).tolist()
    require(all(0 <= each <= MAX_LENGTH for each in room), f"there is room for {room} of {MAX_LENGTH} tokens")
    try:
        model(trial.batch(encoded=replace(encoded, output=ragged(room, 4))))
    except LengthError as error:
        fail(f"there is room for {room} tokens in a model of {MAX_LENGTH} positions, but: {error}")


def _fits(architecture: Architecture, reading: Reading) -> bool:
    """Returns whether an architecture serves a level, and has something for each stack to read."""
    given = bool(reading.inputs) or all(stack.causal for stack in architecture.stacks)
    return reading.level in architecture.levels and given


def _require_generative(model: Model) -> Generative:
    if not isinstance(model, Generative):
        fail(f"its model for {Level.NEXT_TOKEN} is no Generative: decoding cannot begin or step")
    return model


def _asked(
    subject: Subject, reading: Reading, position: str = "rope"
) -> tuple[Trial, Generative, Batch] | None:
    """Returns a trial of outputs of `_STEPS` tokens, its model, and questions of different length as a batch.

    There are none where the architecture continues nothing: then it is not asked to.
    """
    if Level.NEXT_TOKEN not in subject.create().levels:
        return None
    trial = Trial(subject, reading, position)
    trial.encoded = replace(trial.encoded, output=ragged((_STEPS,) * len(reading), 2), complete=True)
    if not reading.inputs:  # a prompt
        begin = Ragged.repeated(BEGIN, len(reading))
        trial.encoded = replace(trial.encoded, start=begin.followed_by(ragged((3, 1, 4), 3)))
    question = trial.batch(encoded=replace(trial.encoded, output=None))
    return trial, _require_generative(trial.model), question


def _one(ids: Int[Tensor, " rows"]) -> Tokens:
    return Tokens(ids[:, None], torch.ones(len(ids), 1, dtype=torch.bool), Padding.NONE)


def _sequences(batch: Batch) -> dict[str, Tokens]:
    both = {"source": batch.source, "target": batch.target}
    return {name: tokens for name, tokens in both.items() if tokens.ids.numel()}


def _require_padded(name: str, tokens: Tokens, examples: int, side: Side) -> None:
    real, marked = tokens.mask, tokens.padding
    require(len(real) == examples, f"{examples} examples have {len(real)} rows in {name}")
    require(bool((tokens.ids[~real] == PADDING).all()), f"padding of {name} has ids other than PADDING")
    steps = real.long().diff(dim=1)
    towards = steps <= 0 if side == "right" else steps >= 0
    require(bool(towards.all()), f"padding of {name} is not on the {side}, or within a sequence")
    honest = bool(real.all()) or marked is Padding.ANYWHERE or (marked is Padding.RIGHT and side == "right")
    require(honest, f"{name} says that its padding is {marked.name}, but it is on the {side}")


def _expected(encoded: Encoded) -> list[list[int]]:
    """Returns the targets of each example, token by token."""
    if isinstance(encoded.targets, Ragged):
        return [[target for target in row if target != IGNORED] for row in encoded.targets.rows()]
    outputs = [] if encoded.output is None else encoded.output.rows()
    return [[*row, *[END] * encoded.complete] for row in outputs]


def _with_other_token(encoded: Encoded, part: str, place: int) -> Encoded:
    """Returns examples with another ordinary token at a place of a part, all of them end to end."""
    sequences: Ragged = getattr(encoded, part)
    values = sequences.values.copy()
    values[place] += -1 if values[place] > len(SPECIAL_TOKENS) else 1
    other: dict[str, Any] = {part: Ragged(values, sequences.lengths)}
    return replace(encoded, **other)
