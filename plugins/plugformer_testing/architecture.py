"""The contract of architectures: see plugformer.interfaces.architecture."""

from dataclasses import replace
from itertools import product

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
from plugformer_testing.small_models import MAX_LENGTH, READINGS, Reading, ragged, small_model, taken
from plugformer_testing.subject import Subject

CONTINUED = tuple(reading for reading in READINGS if reading.level is Level.NEXT_TOKEN)

_SIDES: tuple[Side, ...] = ("right", "left")
_STEPS = 3


@check()
def every_level_builds(subject: Subject) -> None:
    """It serves one level at least, and builds a model of each, with a head and the stacks it declares."""
    architecture: Architecture = subject.create()
    declared = [stack.name for stack in architecture.stacks]
    require(len(architecture.levels) > 0, "it serves no level")
    require(
        bool(declared) and len(set(declared)) == len(declared), f"its stacks are {declared}, expected names"
    )
    for level in sorted(architecture.levels):
        reading = next((each for each in READINGS if each.level is level and _fits(architecture, each)), None)
        if reading is None:
            fail(f"it serves {level!r}, which is no level")
        model = _model(subject, reading)
        require(isinstance(getattr(model, "head", None), Head), f"its model for {level} has no head")
        require(
            set(model.stacks) == set(declared),
            f"its model for {level} has the stacks {sorted(model.stacks)}, it declares {sorted(declared)}",
        )
        if level is Level.NEXT_TOKEN:
            require(
                isinstance(model, Generative),
                f"its model for {level} is no Generative: decoding cannot begin or step",
            )
        require_finite(
            model(_batch(subject, reading)).total, f"the loss of a model for {level} is not finite"
        )


@check(product(READINGS, _SIDES))
def sequences_are_padded_as_asked(subject: Subject, case: tuple[Reading, Side]) -> None:
    """Padding stands on the side asked for, is marked as such, and sequences have the least length asked for.

    Each example has a row, in order.
    """
    reading, side = case
    longest = 0
    for length in (None, MAX_LENGTH):
        batch = _batch(subject, reading, side=side, length=length)
        for name, tokens in _sequences(batch).items():
            _require_padded(name, tokens, reading, side)
            longest = max(longest, tokens.ids.shape[1])
    require(longest >= MAX_LENGTH, f"of a least length of {MAX_LENGTH} the longest sequence has {longest}")


@check(product(READINGS, _SIDES))
def targets_are_those_of_the_examples(subject: Subject, case: tuple[Reading, Side]) -> None:
    """Each example's targets are what is to be predicted of it, in order, once, wherever padding stands.

    At next-token the tokens of the output, and END behind one that is complete; at token those of the input
    that are not IGNORED; at sequence the example's own.
    """
    reading, side = case
    model, encoded = _model(subject, reading), reading.encoded()
    batch = _batch(subject, reading, side=side)
    targets, real = model.targets(batch)
    if reading.level is Level.SEQUENCE:
        found = targets.tolist()
        expected = encoded.targets.tolist() if isinstance(encoded.targets, np.ndarray) else []
    else:
        found = [row[marks].tolist() for row, marks in zip(targets, real, strict=True)]
        expected = _expected(encoded)
    require(found == expected, f"the targets are {found}, expected {expected}")
    hidden = model.hidden(batch)
    require(
        hidden.shape[:2] == real.shape,
        f"there are hidden states of shape {tuple(hidden.shape)}, and targets ask for {tuple(real.shape)}",
    )


@check(READINGS)
def padding_changes_nothing(subject: Subject, reading: Reading) -> None:
    """On the other side, or more of it: the same loss, from the same hidden states."""
    model = _model(subject, reading)
    plain = _batch(subject, reading)
    for side, length in (("left", None), ("right", MAX_LENGTH), ("left", MAX_LENGTH)):
        batch = _batch(subject, reading, side=side, length=length)  # type: ignore[arg-type]
        what = f"with padding on the {side}{', more of it' if length else ''},"
        require_close(_states(model, batch), _states(model, plain), f"{what} hidden states differ")
        require_close(model(batch).total, model(plain).total, f"{what} the loss differs")


@check(READINGS)
def neighbours_change_nothing(subject: Subject, reading: Reading) -> None:
    """An example has the hidden states in a batch that it has alone, in any order of the batch."""
    model = _model(subject, reading)
    alone = [_states(model, _batch(subject, reading, rows=[row])) for row in range(len(reading))]
    for order in ([0, 1, 2], [2, 0, 1]):
        together = _states(model, _batch(subject, reading, rows=order))
        require_close(
            together,
            torch.cat([alone[row] for row in order]),
            "an example's hidden states change with others",
        )


@check(READINGS)
def losses_add_up(subject: Subject, reading: Reading) -> None:
    """The loss of a batch and its number of targets are the sums of those of its examples."""
    model = _model(subject, reading)
    whole = model(_batch(subject, reading))
    parts = [model(_batch(subject, reading, rows=[row])) for row in range(len(reading))]
    counts = [int(part.targets) for part in parts]
    require(
        sum(counts) == int(whole.targets) == model.count(_batch(subject, reading)),
        f"the examples have {counts} targets, the batch {int(whole.targets)}",
    )
    require_close(
        whole.total, torch.stack([part.total for part in parts]).sum(), "the losses of examples do not add up"
    )


@check(READINGS)
def nothing_reads_what_it_predicts(subject: Subject, reading: Reading) -> None:
    """No hidden state depends on its own target or a later one."""
    model, encoded = _model(subject, reading), reading.encoded()
    if reading.level is not Level.NEXT_TOKEN:
        targets: Ragged | None = None
        if isinstance(encoded.targets, Ragged):
            shifted = np.where(encoded.targets.values == IGNORED, IGNORED, 0)
            targets = Ragged(shifted, encoded.targets.lengths)
        batch = _arranged(subject, replace(encoded, targets=targets), reading.level)
        require_close(
            model.hidden(batch),
            model.hidden(_batch(subject, reading)),
            "hidden states change with the targets",
        )
        return
    for row, length in enumerate(reading.outputs):
        alone = taken(encoded, [row])
        assert alone.output is not None  # noqa: S101 (the reading has outputs)
        states = _states(model, _arranged(subject, alone, reading.level))
        for place in range(length):
            other = replace(alone, output=_with_other_token(alone.output, place))
            changed = _states(model, _arranged(subject, other, reading.level))
            require_close(
                changed[: place + 1],
                states[: place + 1],
                f"hidden states before token {place} of an output change with it: the future leaks",
            )


@check(READINGS)
def all_that_is_given_is_read(subject: Subject, reading: Reading) -> None:
    """Another token of the input, or before what is predicted of the output, changes the hidden states."""
    model, encoded = _model(subject, reading), reading.encoded()
    states = _states(model, _batch(subject, reading))
    others: dict[str, Encoded] = {}
    if encoded.input is not None:
        others["input"] = replace(encoded, input=_with_other_token(encoded.input, 0))
    if encoded.output is not None:
        others["output"] = replace(encoded, output=_with_other_token(encoded.output, 0))
    if encoded.start is not None:
        others["start"] = replace(encoded, start=_with_other_token(encoded.start, 0))
    for what, other in others.items():
        now = _states(model, _arranged(subject, other, reading.level))
        require(
            not torch.allclose(now, states, atol=1e-9),
            f"no hidden state changes with the first token of the {what}",
        )


@check(READINGS)
def every_parameter_gets_a_gradient(subject: Subject, reading: Reading) -> None:
    """Every parameter of its model takes part in the loss, and has a finite gradient."""
    model = _model(subject, reading)
    model.zero_grad()
    model(_batch(subject, reading)).total.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            fail(f"{name} gets no gradient: it takes no part in the loss")
        require_finite(parameter.grad, f"the gradient of {name} is not finite")


@check(READINGS)
def positions_cover_a_batch(subject: Subject, reading: Reading) -> None:
    """`positions` are no fewer than a batch has columns, with outputs and of questions."""
    architecture: Architecture = subject.create()
    _require_served(architecture, reading)
    encoded = reading.encoded()
    cases = [(encoded, reading.lengths())]
    if encoded.input is not None and encoded.output is not None:
        absent = np.full_like(encoded.output.lengths, -1)
        cases.append((replace(encoded, output=None), np.stack([encoded.input.lengths, absent], axis=1)))
    for examples, lengths in cases:
        for rows in ([0], [1], [2], [0, 1, 2]):
            batch = _arranged(subject, taken(examples, rows), reading.level)
            columns = sum(tokens.ids.shape[1] for tokens in _sequences(batch).values())
            said = int(architecture.positions(lengths[rows], reading.level).max(axis=0).sum())
            require(
                columns <= said,
                f"positions says {said} for tokens {lengths[rows].tolist()}, a batch of them has {columns}",
            )


@check(READINGS)
def limits_are_honest(subject: Subject, reading: Reading) -> None:
    """An example with as many tokens as `limits` allows runs where there are just `max_length` positions."""
    architecture: Architecture = subject.create()
    _require_served(architecture, reading)
    limits = architecture.limits(MAX_LENGTH, reading.level)
    cases: list[tuple[int, int]] = []
    if not reading.inputs:
        cases.append((0, limits.output))
    elif not reading.outputs:
        cases.append((limits.input, 0))
    else:
        longest_output = min(limits.output, limits.together - 1)
        cases.append((limits.input, min(limits.output, limits.together - limits.input)))
        cases.append((min(limits.input, limits.together - longest_output), longest_output))
    model = _model(subject, reading, position="learned")
    for given, output in cases:
        require(
            max(given, output) > 0 <= min(given, output), f"limits are {limits}: no example has so few tokens"
        )
        longest = replace(
            reading,
            inputs=(given,) if reading.inputs else (),
            outputs=(output,) if reading.outputs else (),
        )
        try:
            model(_batch(subject, longest))
        except LengthError as error:
            fail(f"{longest} keeps to the limits {tuple(limits)} of {MAX_LENGTH} positions, but: {error}")


@check(CONTINUED)
def continuing_equals_reading(subject: Subject, reading: Reading) -> None:
    """Token by token, hidden states are those of one pass: for questions of different length in a batch.

    Also after rows were selected, and after one row has taken the place of another of the same example.
    """
    model, asked, encoded = _asked(subject, reading)
    if model is None or encoded.output is None:
        return
    rows = _by_row(model, _arranged(subject, encoded, reading.level))
    outputs = np.split(encoded.output.values, np.cumsum(encoded.output.lengths)[:-1])
    with torch.no_grad():
        past, last = model.begin(asked)
        require_close(
            model.step(_one(last), past)[:, -1],
            torch.stack([states[0] for states in rows]),
            "the first step differs from reading all at once",
        )
        # Each example twice: one row goes wrong, and then takes the place of the other.
        order = [2, 2, 0, 0, 1, 1]
        past.select(torch.tensor(order))
        right = torch.tensor([int(outputs[row][0]) for row in order])
        wrong = torch.where(right > 4, right - 1, right + 1)
        model.step(_one(torch.where(torch.arange(6) % 2 == 0, right, wrong)), past)
        past.reorder(torch.tensor([0, 0, 2, 2, 4, 4]))
        past.select(torch.tensor([1, 3, 4]))
        for step in range(1, _STEPS):
            order = [2, 0, 1]
            tokens = torch.tensor([int(outputs[row][step]) for row in order])
            require_close(
                model.step(_one(tokens), past)[:, -1],
                torch.stack([rows[row][step + 1] for row in order]),
                f"step {step + 1}, after rows were selected, differs from reading all at once",
            )


@check(CONTINUED)
def there_is_room_for_an_output(subject: Subject, reading: Reading) -> None:
    """Outputs as long as `room` says run in one pass; inputs have as many tokens as `input_lengths` says."""
    model, asked, encoded = _asked(subject, reading, position="learned")
    if model is None:
        return
    given = encoded.input or encoded.start
    special = 0 if encoded.input is not None else 1  # BEGIN in front of what is to be continued
    if given is not None:
        found = model.input_lengths(asked).tolist()
        expected = (given.lengths - special).tolist()
        require(found == expected, f"input_lengths gives {found}, the inputs have {expected} tokens")
    room = model.room(asked).tolist()
    require(all(0 <= each <= MAX_LENGTH for each in room), f"there is room for {room} of {MAX_LENGTH} tokens")
    try:
        model(_arranged(subject, replace(encoded, output=ragged(room, 4), complete=True), reading.level))
    except LengthError as error:
        fail(f"there is room for {room} tokens in a model of {MAX_LENGTH} positions, but: {error}")


def _fits(architecture: Architecture, reading: Reading) -> bool:
    """Returns whether an architecture serves a level, and has something for each stack to read."""
    given = bool(reading.inputs) or all(stack.causal for stack in architecture.stacks)
    return reading.level in architecture.levels and given


def _require_served(architecture: Architecture, reading: Reading) -> None:
    """Raises NotApplicable for examples that an architecture does not read."""
    if not _fits(architecture, reading):
        raise NotApplicable(f"it does not read {reading}")


def _model(subject: Subject, reading: Reading, position: str = "rope") -> Model:
    architecture: Architecture = subject.create()
    _require_served(architecture, reading)
    model = small_model(architecture, reading.level, reading.sizes, position=position)
    require(isinstance(model, Model), f"it builds a {type(model).__name__}, expected a Model")
    return model


def _arranged(
    subject: Subject, encoded: Encoded, level: Level, *, side: Side = "right", length: int | None = None
) -> Batch:
    architecture: Architecture = subject.create()
    batch = architecture.arrange(encoded, level, side=side, length=length)
    require(isinstance(batch, Batch), f"arrange returns a {type(batch).__name__}, expected a Batch")
    return batch


def _batch(
    subject: Subject,
    reading: Reading,
    *,
    rows: list[int] | None = None,
    side: Side = "right",
    length: int | None = None,
) -> Batch:
    architecture: Architecture = subject.create()
    _require_served(architecture, reading)
    encoded = reading.encoded() if rows is None else taken(reading.encoded(), rows)
    return _arranged(subject, encoded, reading.level, side=side, length=length)


def _asked(
    subject: Subject, reading: Reading, position: str = "rope"
) -> tuple[Generative | None, Batch, Encoded]:
    """Returns a model, questions of different length as a batch, and the whole examples.

    There is no model where the architecture continues nothing: then it is not asked to.
    """
    architecture: Architecture = subject.create()
    encoded = replace(reading.encoded(), output=ragged((_STEPS,) * len(reading), 2), complete=True)
    if not reading.inputs:  # a prompt
        begin = Ragged.repeated(BEGIN, len(reading))
        encoded = replace(encoded, start=begin.followed_by(ragged((3, 1, 4), 3)))
    if Level.NEXT_TOKEN not in architecture.levels:
        return None, Batch(), encoded
    model = _model(subject, reading, position)
    if not isinstance(model, Generative):
        fail(f"its model for {reading.level} is no Generative: decoding cannot begin or step")
    return model, _arranged(subject, replace(encoded, output=None), reading.level), encoded


def _one(ids: Int[Tensor, " rows"]) -> Tokens:
    return Tokens(ids[:, None], torch.ones(len(ids), 1, dtype=torch.bool), Padding.NONE)


def _states(model: Model, batch: Batch) -> Float[Tensor, "states width"]:
    """Returns the hidden states that something is predicted from, example by example."""
    return torch.cat(_by_row(model, batch))


def _by_row(model: Model, batch: Batch) -> list[Float[Tensor, "states width"]]:
    with torch.no_grad():
        hidden, (_, real) = model.hidden(batch), model.targets(batch)
    return [states[marks] for states, marks in zip(hidden, real, strict=True)]


def _sequences(batch: Batch) -> dict[str, Tokens]:
    both = {"source": batch.source, "target": batch.target}
    return {name: tokens for name, tokens in both.items() if tokens.ids.numel()}


def _require_padded(name: str, tokens: Tokens, reading: Reading, side: Side) -> None:
    real, marked = tokens.real, tokens.padding
    require(len(real) == len(reading), f"{len(reading)} examples have {len(real)} rows in {name}")
    require(bool((tokens.ids[~real] == PADDING).all()), f"padding of {name} has ids other than PADDING")
    steps = real.long().diff(dim=1)
    towards = steps <= 0 if side == "right" else steps >= 0
    require(bool(towards.all()), f"padding of {name} is not on the {side}, or within a sequence")
    honest = bool(real.all()) or marked is Padding.ANYWHERE or (marked is Padding.RIGHT and side == "right")
    require(honest, f"{name} says that its padding is {marked.name}, but it is on the {side}")


def _expected(encoded: Encoded) -> list[list[int]]:
    """Returns what is to be predicted of each example, token by token."""
    if isinstance(encoded.targets, Ragged):
        rows = np.split(encoded.targets.values, np.cumsum(encoded.targets.lengths)[:-1])
        return [row[row != IGNORED].tolist() for row in rows]
    if encoded.output is None:
        return []
    end = [END] * encoded.complete
    rows = np.split(encoded.output.values, np.cumsum(encoded.output.lengths)[:-1])
    return [[*row.tolist(), *end] for row in rows]


def _with_other_token(sequences: Ragged, place: int) -> Ragged:
    """Returns sequences with another ordinary token at a place of all of them end to end."""
    values = sequences.values.copy()
    values[place] += -1 if values[place] > len(SPECIAL_TOKENS) else 1
    return Ragged(values, sequences.lengths)
