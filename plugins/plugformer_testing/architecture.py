"""The contract of architectures, see plugformer.interfaces.spec."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from plugformer_testing.contract import (
    NotApplicable,
    contract_check,
    fail,
    require,
    require_close,
    require_finite,
)
from plugformer_testing.probes import gradients
from plugformer_testing.small_models import CASES, MAX_LENGTH, EncodedCase, ragged, small_model, take
from plugformer_testing.subject import Subject

_GENERATED = tuple(case for case in CASES if case.level is Level.NEXT_TOKEN)
_SIDES: tuple[Side, ...] = ("right", "left")
_STEPS = 3


@dataclass(frozen=True)
class SmallExperiment:
    """An architecture, a small model of it, and the encoded examples of a case."""

    architecture: Architecture
    model: Model
    case: EncodedCase
    encoded: Encoded

    @classmethod
    def of(cls, subject: Subject, case: EncodedCase, position: str = "rope") -> "SmallExperiment":
        """Returns an experiment, built once for all checks.

        Raises:
            NotApplicable: The architecture does not read such examples.
        """
        architecture: Architecture = subject.create()
        if not _fits(architecture, case):
            raise NotApplicable(f"it does not read {case}")

        def made() -> Model:
            return small_model(architecture, case.level, case.sizes, position=position)

        model = subject.once((case.level, position), made)
        require(isinstance(model, Model), f"it builds a {type(model).__name__}, expected a Model")
        return cls(architecture, model, case, case.encoded())

    def batch(
        self,
        rows: Sequence[int] | None = None,
        *,
        encoded: Encoded | None = None,
        side: Side = "right",
        length: int | None = None,
    ) -> Batch:
        """Returns a batch of the examples or of others, with padding on a side and a least length."""
        encoded = encoded or self.encoded
        encoded = encoded if rows is None else take(encoded, rows)
        batch = self.architecture.collate(encoded, self.case.level, side=side, length=length)
        require(isinstance(batch, Batch), f"collate returns a {type(batch).__name__}, expected a Batch")
        return batch

    def states_by_row(self, batch: Batch) -> list[Float[Tensor, "states width"]]:
        """Returns for each example the hidden states that something is predicted from."""
        with torch.no_grad():
            hidden, (_, real) = self.model.hidden(batch), self.model.targets(batch)
        return [states[marks] for states, marks in zip(hidden, real, strict=True)]

    def states(
        self, rows: Sequence[int] | None = None, *, encoded: Encoded | None = None
    ) -> Float[Tensor, "states width"]:
        """Returns the same of all examples of a batch, one after the other."""
        return torch.cat(self.states_by_row(self.batch(rows, encoded=encoded)))


def _fits(architecture: Architecture, case: EncodedCase) -> bool:
    """Returns whether an architecture serves a level, and has something for each stack to read."""
    given = bool(case.inputs) or all(stack.causal for stack in architecture.stacks)
    return case.level in architecture.levels and given


@contract_check()
def every_level_builds(subject: Subject) -> None:
    """It serves one level at least, and builds a model of each, with a head and the stacks it declares."""
    architecture: Architecture = subject.create()
    declared = [stack.name for stack in architecture.stacks]
    require(architecture.levels, "it serves no level")
    unique = declared and len(set(declared)) == len(declared)
    require(unique, f"its stacks are {declared}, expected different names")
    for level in sorted(architecture.levels):
        case = next((case for case in CASES if case.level is level and _fits(architecture, case)), None)
        if case is None:
            fail(f"it serves {level!r}, which is no level")
        experiment = SmallExperiment.of(subject, case)
        model = experiment.model
        require(isinstance(getattr(model, "head", None), Head), f"its model for {level} has no head")
        what = f"its model for {level} has the stacks {sorted(model.stacks)}"
        require(set(model.stacks) == set(declared), f"{what}, it declares {sorted(declared)}")
        if level is Level.NEXT_TOKEN:
            _require_generative(model)
        require_finite(model(experiment.batch()).total, f"the loss of a model for {level} is not finite")


@contract_check(CASES)
def sequences_are_padded_as_asked(subject: Subject, case: EncodedCase) -> None:
    """Padding is on the requested side and marked as padding; sequences have at least the requested length.

    Each example has a row, in order.
    """
    experiment = SmallExperiment.of(subject, case)
    for side, least in product(_SIDES, (0, MAX_LENGTH)):
        sequences = _sequences(experiment.batch(side=side, length=least or None))
        for name, tokens in sequences.items():
            _require_padded(name, tokens, len(case), side)
        longest = max((tokens.ids.shape[1] for tokens in sequences.values()), default=0)
        require(longest >= least, f"of a least length of {least} the longest sequence has {longest}")


def _sequences(batch: Batch) -> dict[str, Tokens]:
    both = {"source": batch.source, "target": batch.target}
    return {name: tokens for name, tokens in both.items() if tokens.ids.numel()}


def _require_padded(name: str, tokens: Tokens, examples: int, side: Side) -> None:
    real, marked = tokens.mask, tokens.padding
    require(len(real) == examples, f"{examples} examples have {len(real)} rows in {name}")
    require((tokens.ids[~real] == PADDING).all(), f"padding of {name} has ids other than PADDING")
    steps = real.long().diff(dim=1)
    towards = steps <= 0 if side == "right" else steps >= 0
    require(towards.all(), f"padding of {name} is not on the {side}, or within a sequence")
    honest = bool(real.all()) or marked is Padding.ANYWHERE or (marked is Padding.RIGHT and side == "right")
    require(honest, f"the padding of {name} is declared as {marked.name}, but it is on the {side}")


@contract_check(CASES)
def targets_are_those_of_the_examples(subject: Subject, case: EncodedCase) -> None:
    """Each example has its own targets, in order, once, wherever the padding is.

    At next-token these are the tokens of the output, and END behind one that is complete; at token those of
    the input that are not IGNORED; at sequence the example's own.
    """
    experiment = SmallExperiment.of(subject, case)
    encoded, model = experiment.encoded, experiment.model
    for side in _SIDES:
        batch = experiment.batch(side=side)
        targets, real = model.targets(batch)
        if isinstance(encoded.targets, np.ndarray):
            found, expected = targets.tolist(), encoded.targets.tolist()
        else:
            found = [row[marks].tolist() for row, marks in zip(targets, real, strict=True)]
            if isinstance(encoded.targets, Ragged):
                rows = encoded.targets.rows()
                expected = [[target for target in row if target != IGNORED] for row in rows]
            else:
                rows = [] if encoded.output is None else encoded.output.rows()
                expected = [[*row, *[END] * encoded.complete] for row in rows]
        what = f"with padding on the {side} the targets are {found}"
        require(found == expected, f"{what}, expected {expected}")
        hidden = model.hidden(batch)
        what = f"there are hidden states of shape {tuple(hidden.shape)}"
        require(hidden.shape[:2] == real.shape, f"{what}, and targets of shape {tuple(real.shape)}")


@contract_check(CASES)
def padding_changes_nothing(subject: Subject, case: EncodedCase) -> None:
    """On the other side, or more of it: the same loss, from the same hidden states."""
    experiment = SmallExperiment.of(subject, case)
    states, loss = experiment.states(), experiment.model(experiment.batch()).total
    for side, length in product(_SIDES, (None, MAX_LENGTH)):
        batch = experiment.batch(side=side, length=length)
        what = f"with {'more ' if length else ''}padding on the {side},"
        require_close(torch.cat(experiment.states_by_row(batch)), states, f"{what} hidden states differ")
        require_close(experiment.model(batch).total, loss, f"{what} the loss differs")


@contract_check(CASES)
def examples_are_independent(subject: Subject, case: EncodedCase) -> None:
    """An example has the same hidden states in a batch as alone, in any order of the batch.

    The loss of a batch and its number of targets are the sums of those of its examples.
    """
    experiment = SmallExperiment.of(subject, case)
    model, rows = experiment.model, range(len(case))
    alone = [experiment.states([row]) for row in rows]
    for order in ([0, 1, 2], [2, 0, 1]):
        expected = torch.cat([alone[row] for row in order])
        require_close(experiment.states(order), expected, "an example's hidden states change with others")
    whole, parts = model(experiment.batch()), [model(experiment.batch([row])) for row in rows]
    counts = [int(part.targets) for part in parts]
    same = sum(counts) == int(whole.targets) == model.count(experiment.batch())
    require(same, f"the examples have {counts} targets, the batch {int(whole.targets)}")
    total = torch.stack([part.total for part in parts]).sum()
    require_close(whole.total, total, "the losses of examples do not add up")


@contract_check(CASES)
def nothing_reads_what_it_predicts(subject: Subject, case: EncodedCase) -> None:
    """No hidden state depends on its own target or a later one."""
    experiment = SmallExperiment.of(subject, case)
    targets, blank = experiment.encoded.targets, None
    if isinstance(targets, Ragged):
        blank = Ragged(np.where(targets.values == IGNORED, IGNORED, 0), targets.lengths)
    other = replace(experiment.encoded, targets=blank)
    one, two = (
        experiment.model.hidden(experiment.batch(encoded=given)) for given in (other, experiment.encoded)
    )
    require_close(one, two, "hidden states change with the targets")
    for row, length in enumerate(case.outputs):
        alone = take(experiment.encoded, [row])
        states = experiment.states(encoded=alone)
        for place in range(length):
            changed = experiment.states(encoded=_with_other_token(alone, "output", place))
            what = f"hidden states before token {place} of an output change with it"
            require_close(changed[: place + 1], states[: place + 1], f"{what}: the future leaks")


@contract_check(CASES)
def all_that_is_given_is_read(subject: Subject, case: EncodedCase) -> None:
    """Another first token of the input, of the output or of its beginning changes the hidden states."""
    experiment = SmallExperiment.of(subject, case)
    states = experiment.states()
    for part in ("input", "output", "start"):
        if getattr(experiment.encoded, part) is not None:
            changed = experiment.states(encoded=_with_other_token(experiment.encoded, part, 0))
            same = torch.allclose(changed, states, atol=1e-9)
            require(not same, f"no hidden state changes with the first token of the {part}")


def _with_other_token(encoded: Encoded, part: str, place: int) -> Encoded:
    """Returns examples with another ordinary token at a place of a part, all of them end to end."""
    sequences: Ragged = getattr(encoded, part)
    values = sequences.values.copy()
    values[place] += -1 if values[place] > len(SPECIAL_TOKENS) else 1
    other: dict[str, Any] = {part: Ragged(values, sequences.lengths)}
    return replace(encoded, **other)


@contract_check(CASES)
def every_parameter_gets_a_gradient(subject: Subject, case: EncodedCase) -> None:
    """Every parameter of its model takes part in the loss, and has a finite gradient."""
    experiment = SmallExperiment.of(subject, case)
    found = gradients(experiment.model, experiment.model(experiment.batch()).total)
    for name, _ in experiment.model.named_parameters():
        require(name in found, f"{name} gets no gradient: it takes no part in the loss")
        require_finite(found[name], f"the gradient of {name} is not finite")


@contract_check(CASES)
def positions_cover_a_batch(subject: Subject, case: EncodedCase) -> None:
    """`positions` are at least as many as a batch has columns, with outputs and without."""
    experiment = SmallExperiment.of(subject, case)
    encoded, absent = experiment.encoded, np.full(len(case), -1)
    for examples in (encoded, replace(encoded, output=None)) if case.inputs else (encoded,):
        parts = (examples.input, examples.output)
        lengths = np.stack([absent if part is None else part.lengths for part in parts], axis=1)
        for rows in ([0], [1], [2], [0, 1, 2]):
            batch = experiment.batch(rows, encoded=examples)
            columns = sum(tokens.ids.shape[1] for tokens in _sequences(batch).values())
            positions = experiment.architecture.positions(lengths[rows], case.level)
            count = int(positions.max(axis=0).sum())
            what = f"positions returns {count} for tokens {lengths[rows].tolist()}"
            require(columns <= count, f"{what}, a batch of them has {columns}")


@contract_check(CASES)
def limits_are_honest(subject: Subject, case: EncodedCase) -> None:
    """An example with as many tokens as `limits` allows runs if there are just `max_length` positions."""
    experiment = SmallExperiment.of(subject, case, position="learned")
    limits = experiment.architecture.limits(MAX_LENGTH, case.level)
    lengths = [(limits.input, limits.output)]
    if case.inputs and case.outputs:  # together they may have less
        longest_output = min(limits.output, limits.together - 1)
        lengths = [
            (limits.input, min(limits.output, limits.together - limits.input)),
            (min(limits.input, limits.together - longest_output), longest_output),
        ]
    for input_length, output_length in lengths:
        inputs, outputs = (input_length,) * bool(case.inputs), (output_length,) * bool(case.outputs)
        sound = max(inputs + outputs) > 0 <= min(inputs + outputs)
        require(sound, f"limits are {limits}: no example has so few tokens")
        longest = replace(case, inputs=inputs, outputs=outputs)
        try:
            experiment.model(experiment.batch(encoded=longest.encoded()))
        except LengthError as error:
            fail(f"{longest} is within the limits {tuple(limits)} of {MAX_LENGTH} positions, but: {error}")


@contract_check(_GENERATED)
def continuing_equals_reading(subject: Subject, case: EncodedCase) -> None:
    """Token by token, hidden states are those of one pass, also for questions of different length in a batch.

    The same holds after rows were selected, and after one row has taken the place of another of the same
    example.
    """
    if (prompted := _with_prompt(subject, case)) is None:
        return
    experiment, model, prompt = prompted
    rows = experiment.states_by_row(experiment.batch())
    continuations: Any = experiment.encoded.output
    outputs = torch.tensor(continuations.rows())
    with torch.no_grad():
        past, last = model.begin(prompt)
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


@contract_check(_GENERATED)
def there_is_room_for_an_output(subject: Subject, case: EncodedCase) -> None:
    """Outputs of the length that `room` returns run in one pass; `input_lengths` are those of the inputs."""
    if (prompted := _with_prompt(subject, case, position="learned")) is None:
        return
    experiment, model, prompt = prompted
    encoded = experiment.encoded
    given = encoded.input or encoded.start
    special = 0 if encoded.input is not None else 1  # BEGIN in front of a prompt
    if given is not None:
        found = model.input_lengths(prompt).tolist()
        expected = (given.lengths - special).tolist()
        require(found == expected, f"input_lengths gives {found}, the inputs have {expected} tokens")
    room = model.room(prompt).tolist()
    sound = all(0 <= tokens <= MAX_LENGTH for tokens in room)
    require(sound, f"there is room for {room} of {MAX_LENGTH} tokens")
    try:
        model(experiment.batch(encoded=replace(encoded, output=ragged(room, 4))))
    except LengthError as error:
        fail(f"there is room for {room} tokens in a model of {MAX_LENGTH} positions, but: {error}")


def _with_prompt(
    subject: Subject, case: EncodedCase, position: str = "rope"
) -> tuple[SmallExperiment, Generative, Batch] | None:
    """Returns an experiment with outputs of `_STEPS` tokens, its model, and prompts of different length.

    Returns None if the architecture generates nothing.
    """
    if Level.NEXT_TOKEN not in subject.create().levels:
        return None
    experiment = SmallExperiment.of(subject, case, position)
    encoded = replace(experiment.encoded, output=ragged((_STEPS,) * len(case), 2), complete=True)
    if not case.inputs:
        begin = Ragged.repeated(BEGIN, len(case))
        encoded = replace(encoded, start=begin.followed_by(ragged((3, 1, 4), 3)))
    experiment = replace(experiment, encoded=encoded)
    prompt = experiment.batch(encoded=replace(encoded, output=None))
    return experiment, _require_generative(experiment.model), prompt


def _require_generative(model: Model) -> Generative:
    if not isinstance(model, Generative):
        fail(f"its model for {Level.NEXT_TOKEN} is no Generative: decoding cannot begin or step")
    return model


def _one(ids: Int[Tensor, " rows"]) -> Tokens:
    return Tokens(ids[:, None], torch.ones(len(ids), 1, dtype=torch.bool), Padding.NONE)
