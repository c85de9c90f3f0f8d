"""The contract of task types: see plugformer.interfaces.task_type."""

import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.interfaces import (
    IGNORED,
    Encoded,
    Examples,
    Level,
    OutputType,
    Ragged,
    TaskType,
)
from plugformer_testing.check import check, fail, is_list_of_text, require, require_finite
from plugformer_testing.probes import gradients
from plugformer_testing.small_models import taken
from plugformer_testing.small_tasks import SmallTask
from plugformer_testing.subject import Subject

_PARTS = {
    Level.NEXT_TOKEN: {"input", "output"},
    Level.TOKEN: {"input", "targets"},
    Level.SEQUENCE: {"input", "targets"},
}
"""What encoded examples may have at each level."""

_UNSEEN = "☃"
"""A label that no example has."""


@check()
def columns_are_sound(subject: Subject) -> None:
    """Columns have different names, one at least is tokenized as source, and tags stand along words."""
    task_type: TaskType = subject.create()
    columns = {column.name: column for column in task_type.columns}
    require(len(columns) == len(task_type.columns), "two of its columns have the same name")
    for column in columns.values():
        along = columns.get(column.along or "")
        require(
            (column.along is None) == (column.holds != "tags") and (along is None or along.holds == "words"),
            f"column {column.name!r} of {column.holds} stands along {column.along!r}: tags stand along words",
        )
    if not any(column.tokenizer == "source" for column in columns.values()):
        fail("no column is tokenized as source: a model has nothing to read")


@check()
def what_it_learns_survives_json(subject: Subject) -> None:
    """What it learns is as `state_type` says, and read back from JSON it encodes the same."""
    task = _learned(subject)
    learned = task.task_type.state
    try:
        schema: TypeAdapter[object] = TypeAdapter(task.task_type.state_type, config=ConfigDict(strict=True))
        again = schema.validate_json(json.dumps(learned))
    except ValidationError as error:
        declared = task.task_type.state_type
        declared = declared.__name__ if isinstance(declared, type) else str(declared)
        fail(
            f"`learn` returns {reprlib.repr(learned)}, but state_type is {declared}: "
            f"{error.errors()[0]['msg']}; set state_type = {_annotation(learned)}"
        )
    except (TypeError, ValueError) as error:
        fail(f"what it learns cannot be read back from JSON: {str(error).splitlines()[0]}")
    require(again == learned, f"it learns {learned!r}, from JSON that is {again!r}")
    other: TaskType = subject.create()
    other.state = again
    same = task.encode(task_type=other) == task.encode()
    require(same, "with what it has learned from JSON it encodes other numbers")


@check()
def numbers_fit_the_level(subject: Subject) -> None:
    """Examples have tokens of the vocabulary, and targets that the head has an output for.

    At next-token, tokens to read and tokens to follow; at token, a target for each token; at sequence, for
    each example.
    """
    task = _learned(subject)
    encoded, level, count = task.encode(), task.task_type.level, len(task)
    for part, values in encoded.items():
        require(part in _PARTS[level], f"it encodes {part!r}; at level {level} there is {_PARTS[level]}")
        require(len(values) == count, f"{count} examples have {len(values)} times {part}")
    expected = _PARTS[level] - ({"input"} if not task.questions else set())
    require(set(encoded) == expected, f"it encodes {sorted(encoded)}, expected {sorted(expected)}")
    for part in ("input", "output"):
        for row, tokens in enumerate(encoded.get(part, ())):
            wrong = [token for token in tokens if not 0 <= token < task.known.source.size]
            require(not wrong, f"the {part} of example {row} has the tokens {wrong}, which are none")
            require(bool(tokens), f"the {part} of example {row} has no token")
    if level is Level.TOKEN:
        for row, (tokens, targets) in enumerate(zip(encoded["input"], encoded["targets"], strict=True)):
            if len(tokens) != len(targets):
                fail(f"example {row} has {len(tokens)} tokens and {len(targets)} targets, expected as many")
    outputs = task.known.sizes.outputs
    rows = (np.ravel(np.array(each, dtype=object)) for each in encoded.get("targets", []))
    numbers = np.array([number for row in rows for number in row if number is not None])
    if numbers.dtype.kind in "iu":
        wrong = numbers[(numbers != IGNORED) & ((numbers < 0) | (numbers >= outputs))].tolist()
        require(not wrong, f"targets are {wrong}, the head has {outputs} outputs")
    require(bool(np.isfinite(numbers).all()), "targets are not finite")


@check()
def targets_arrive_as_encoded(subject: Subject) -> None:
    """A model is given the targets that it encodes: stored, put into a batch, and in single precision."""
    task = _learned(subject)
    encoded, level = task.encode(), task.task_type.level
    if "targets" not in encoded:
        return
    split = task.split(asking=True)  # of which nothing is drawn
    found, marked = task.model().targets(split.batch(range(len(split))))
    expected = np.array(encoded["targets"]) if level is Level.SEQUENCE else None
    if expected is None:
        rows = Ragged.of(encoded["targets"])
        counts = [int(part.sum()) for part in np.split(rows.present, np.cumsum(rows.lengths)[:-1])]
        require(marked.sum(dim=1).tolist() == counts, f"{counts} tokens have targets, in a batch {marked}")
        found, expected = found[marked], rows.values[rows.present]
    arrived = found.double().numpy()
    require(arrived.shape == expected.shape, f"targets {expected.shape} arrive as {arrived.shape}")
    if not expected.size:
        return
    # The model learns differences, of which rounding may not leave less than this.
    allowed = 1e-4 * np.ptp(expected) or 1e-6 * np.abs(expected).max()
    differences = np.abs(arrived - expected)
    if not differences.max() <= allowed:
        at = np.unravel_index(differences.argmax(), differences.shape)
        fail(f"the target {expected[at]} arrives at the model as {arrived[at]}")


@check()
def encoding_is_repeatable(subject: Subject) -> None:
    """The same examples give the same numbers, from the same object and from a new one."""
    task = _learned(subject)
    first = task.encode()
    require(task.encode() == first, "encoded again, examples are other numbers")
    other: TaskType = subject.create()
    other.state = task.task_type.state
    require(task.encode(task_type=other) == first, "another object encodes other numbers")


@check()
def examples_are_encoded_alone(subject: Subject) -> None:
    """An example's numbers do not depend on the examples beside it, nor on how many come at a time."""
    task = _learned(subject)
    whole = task.encode()
    for row in range(len(task)):
        alone = task.encode(_only(task.examples, row))
        for part, values in whole.items():
            what = f"the {part} of example {row} is {alone[part][0]} alone and {values[row]} among others"
            require(alone[part][0] == values[row], what)


@check()
def questions_have_no_outputs(subject: Subject) -> None:
    """Without outputs an example has the same input, and a token to be labeled is still known as one."""
    task = _learned(subject)
    if not task.questions:
        return
    whole, question = task.encode(), task.encode(task.questions)
    outputs = " and ".join(each.name for each in task.task_type.columns if each.role == "output")
    require(question["input"] == whole["input"], f"without {outputs} the inputs are different")
    if task.task_type.level is Level.TOKEN:
        require("targets" in question, "questions have no targets: which tokens are to be labeled?")
        marks = [Ragged.of(each["targets"]).present.tolist() for each in (whole, question)]
        require(marks[0] == marks[1], "in questions other tokens have a target than in examples")


@check()
def a_question_is_read_as_its_example(subject: Subject) -> None:
    """What people type, the inputs of an example as they are shown, is encoded as that example's inputs."""
    task = _learned(subject)
    split, encoded = task.split(), task.encode()
    named = [column.name for column in task.task_type.columns]
    part = "input" if task.questions else "output"
    for row in range(len(split)):
        text = split.input(row)
        question = task.task_type.question(text)
        if not set(question) <= set(named):
            fail(f"the question {text!r} has {sorted(question)}, the columns are {named}")
        found = task.encode({name: [value] for name, value in question.items()})[part][0]
        expected = encoded[part][row]
        require(found == expected, f"the question {text!r} is read as {found}, the example as {expected}")


@check()
def unseen_labels_are_refused(subject: Subject) -> None:
    """A label or tag that was not learned is an ExampleError, which says the label and whose it is."""
    task = _learned(subject)
    for column in task.task_type.columns:
        if column.holds not in ("label", "labels", "tags") or column.role != "output":
            continue
        values = list(task.examples.get(column.name, ()))
        at = max((row for row, value in enumerate(values) if value), default=None)
        if at is None:
            continue
        values[at] = _UNSEEN if column.holds == "label" else [*values[at][:-1], _UNSEEN]
        try:
            task.encode({**task.examples, column.name: values})
        except ExampleError as error:
            if error.row != at:
                fail(f"of an unseen one in example {at} it says that it is in example {error.row}")
            if _UNSEEN not in str(error):
                fail(f"the message does not say which {column.name} is unknown: {error}")
        else:
            fail(f"{column.name} that training never saw are encoded, expected an ExampleError")


@check()
def draws_follow_their_generators(subject: Subject) -> None:
    """What is random comes from an example's own generator: the same again, and whatever stands beside it.

    The examples that were given stay as they are.
    """
    task = _learned(subject)
    encoded = _as_encoded(task.encode(), task.task_type.level)
    before, count = _values(encoded), len(encoded)

    def drawn(given: Encoded, rows: Sequence[int]) -> dict[str, list[Any]]:
        generators = [np.random.default_rng([1, row]) for row in rows]
        return _values(task.task_type.draw(given, generators))

    whole = drawn(encoded, range(count))
    require(_values(encoded) == before, "draw changes the examples that it is given")
    require(drawn(encoded, range(count)) == whole, "the same generators draw something else")
    for row in range(count):
        alone = drawn(taken(encoded, [row]), [row])
        for part, values in whole.items():
            require(alone[part][0] == values[row], f"what is drawn for an example's {part} depends on others")


@check()
def a_model_learns_from_it(subject: Subject) -> None:
    """A model of an installed architecture has a finite loss over its examples, and finite gradients."""
    task = _learned(subject)
    split, model = task.split(packed=True), task.model()
    loss = model(split.batch(range(len(split))))
    require(int(loss.targets) > 0, "there is nothing to be predicted")
    require_finite(loss.total, "the loss is not finite")
    for name, gradient in gradients(model, loss.total).items():
        require_finite(gradient, f"the gradient of {name} is not finite")


@check()
def answers_are_of_their_type(subject: Subject) -> None:
    """Each example has one answer, of `output_type`, that survives JSON; scores are logarithms."""
    task = _learned(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    answers, output_type = task.answers(), task.task_type.output_type
    require(len(answers) == len(task), f"{len(task)} examples have {len(answers)} answers")
    words = [column.name for column in task.task_type.columns if column.holds == "words"]
    for row, answer in enumerate(answers):
        output: Any = answer.output
        _require_value(output_type, output, f"the answer to example {row}")
        if output_type is OutputType.TAGS and words:
            given = task.questions[words[0]][row]
            tags = f"example {row} has {len(given)} words and {len(output)} tags"
            require(len(output) == len(given), tags)
        score = answer.score
        if score is not None and not (math.isfinite(score) and score < 1e-6):
            fail(f"the score of example {row} is {score}, expected the logarithm of a probability")


@check()
def answers_do_not_depend_on_others(subject: Subject) -> None:
    """An example has the same answer and score in a batch as alone."""
    task = _learned(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    for row, answer in enumerate(task.answers()):
        (alone,) = task.answers(_only(task.questions, row))
        if not _same(answer.output, alone.output):
            fail(f"example {row} has the answer {answer.output!r} in a batch and {alone.output!r} alone")
        if not _same(answer.score, alone.score):
            fail(f"the answer to example {row} scores {answer.score} in a batch and {alone.score} alone")


@check()
def more_answers_than_there_are_are_refused(subject: Subject) -> None:
    """Asked for more answers to an example than there are, it raises ConfigurationError."""
    task = _learned(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    try:
        answers = task.answers(n_best=100_000)
    except ConfigurationError:
        return
    fail(f"asked for 100,000 answers it gives {1 + len(answers[0].alternatives)}, expected an error")


@check()
def alternatives_follow_the_best(subject: Subject) -> None:
    """Asked for two answers to an example, it gives the one that it gives alone, and then a worse one."""
    task = _learned(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    try:
        answers = task.answers(n_best=2)
    except ConfigurationError:
        return
    for row, (two, one) in enumerate(zip(answers, task.answers(), strict=True)):
        ranked = [two, *two.alternatives]
        require(len(ranked) == 2, f"asked for 2 answers to example {row}, it gives {len(ranked)}")
        if not _same(two.output, one.output):
            fail(f"the best of 2 answers to example {row} is {two.output!r}, the only one {one.output!r}")
        scores = [each.score for each in ranked if each.score is not None]
        in_order = all(first >= second - 1e-6 for first, second in pairwise(scores))
        require(in_order, f"the answers to example {row} score {scores}, expected the best first")


@check()
def references_are_answers(subject: Subject) -> None:
    """The right answers to an example are one at least, of `output_type`, and survive JSON."""
    task = _learned(subject)
    split = task.split()
    for row in range(len(split)):
        references = task.task_type.references(split.example(row))
        if not (isinstance(references, list) and len(references) > 0):
            fail(f"the references of example {row} are {references!r}, expected a list of answers")
        for reference in references:
            _require_value(task.task_type.output_type, reference, f"a reference of example {row}")


def _learned(subject: Subject) -> SmallTask:
    return SmallTask(subject.create(), registry=subject.registry)


def _only(examples: Examples, row: int) -> Examples:
    return {name: [values[row]] for name, values in examples.items()}


def _annotation(value: object) -> str:
    """Returns the type of a value as it is written in Python: `dict[str, float]`."""
    name = type(value).__name__
    if isinstance(value, dict) and value:
        return f"{name}[{', '.join(map(_annotation, next(iter(value.items()))))}]"
    if isinstance(value, list) and value:
        return f"{name}[{_annotation(value[0])}]"
    return name


def _same(one: object, other: object) -> bool:
    """Returns whether two answers are the same but for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return one == other


_IS: dict[str, tuple[str, Callable[[object], bool]]] = {
    OutputType.TEXT: ("a text", lambda value: isinstance(value, str)),
    OutputType.LABEL: ("the name of a label", lambda value: isinstance(value, str)),
    OutputType.TOKENS: ("a text", lambda value: isinstance(value, str)),
    OutputType.LABELS: ("a list of text", is_list_of_text),
    OutputType.TAGS: ("a list of text", is_list_of_text),
    OutputType.NUMBER: ("a finite float", lambda value: isinstance(value, float) and math.isfinite(value)),
}


def _require_value(answer: str, value: Any, what: str) -> None:
    words, holds = _IS.get(answer, ("some value", lambda value: value is not None))
    require(holds(value), f"{what} is {value!r}, expected {words}, as of {answer}")
    if json.loads(json.dumps(value)) != (list(value) if isinstance(value, tuple) else value):
        fail(f"{what} does not survive JSON")


def _as_encoded(encoded: Mapping[str, Sequence[Any]], level: Level) -> Encoded:
    targets: Any = encoded.get("targets")
    if targets is not None:
        targets = Ragged.of(targets) if level is Level.TOKEN else np.array(targets)
    tokens = {part: Ragged.of(encoded[part]) for part in ("input", "output") if part in encoded}
    return Encoded(tokens.get("input"), tokens.get("output"), targets)


def _comparable(values: Ragged) -> list[list[Any]]:
    """Returns the rows with None in place of NaN, which equals nothing."""
    return [[None if number != number else number for number in row] for row in values.rows()]


def _values(encoded: Encoded) -> dict[str, list[Any]]:
    """Returns the numbers of each example."""
    found: dict[str, list[Any]] = {}
    for part in ("input", "output", "targets", "start"):
        values = getattr(encoded, part)
        if values is not None:
            found[part] = _comparable(values) if isinstance(values, Ragged) else values.tolist()
    return found
