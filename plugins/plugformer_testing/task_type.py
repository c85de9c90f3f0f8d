"""The contract of task types, see plugformer.interfaces.task_type."""

import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.interfaces import IGNORED, Encoded, Examples, Level, OutputType, Ragged, TaskType
from plugformer_testing.contract import contract_check, fail, is_list_of_text, require, require_finite
from plugformer_testing.probes import gradients
from plugformer_testing.small_models import take
from plugformer_testing.small_tasks import SmallTask
from plugformer_testing.subject import Subject

_PARTS = {
    Level.NEXT_TOKEN: {"input", "output"},
    Level.TOKEN: {"input", "targets"},
    Level.SEQUENCE: {"input", "targets"},
}
"""The parts of encoded examples at each level."""

_UNSEEN = "☃"
"""A label that no example has."""


def _task(subject: Subject) -> SmallTask:
    return subject.once("task", lambda: SmallTask(subject.create(), registry=subject.registry))


def _only(examples: Examples, row: int) -> Examples:
    return {name: [values[row]] for name, values in examples.items()}


@contract_check()
def columns_are_sound(subject: Subject) -> None:
    """Columns have different names, at least one is tokenized as source, and tags belong to words."""
    task_type: TaskType = subject.create()
    columns = {column.name: column for column in task_type.columns}
    require(len(columns) == len(task_type.columns), "two of its columns have the same name")
    for column in columns.values():
        along = columns.get(column.along or "")
        require(
            (column.along is None) == (column.holds != "tags") and (along is None or along.holds == "words"),
            f"column {column.name!r} of {column.holds} is along {column.along!r}: tags are along words",
        )
    source = any(column.tokenizer == "source" for column in columns.values())
    require(source, "no column is tokenized as source: a model has nothing to read")


@contract_check()
def what_it_learns_survives_json(subject: Subject) -> None:
    """What it learns has the type `state_type`, and read back from JSON it encodes the same."""
    task = _task(subject)
    learned, declared = task.task_type.state, task.task_type.state_type
    try:
        schema: TypeAdapter[object] = TypeAdapter(declared, config=ConfigDict(strict=True))
        again = schema.validate_json(json.dumps(learned))
    except ValidationError as error:
        what = f"`learn` returns {reprlib.repr(learned)}, but state_type is {declared}"
        fail(f"{what}: {error.errors()[0]['msg']}")
    except (TypeError, ValueError) as error:
        fail(f"the learned state cannot be read back from JSON: {str(error).splitlines()[0]}")
    require(again == learned, f"it learns {learned!r}, from JSON that is {again!r}")
    other: TaskType = subject.create()
    other.state = again
    same = task.encode(task_type=other) == task.encode()
    require(same, "with the state read from JSON it encodes other numbers")


@contract_check()
def numbers_fit_the_level(subject: Subject) -> None:
    """Examples have tokens of the vocabulary, and targets that the head has an output for.

    At next-token, tokens to read and tokens to follow; at token, a target for each token; at sequence, for
    each example.
    """
    task = _task(subject)
    encoded, level, count = task.encode(), task.task_type.level, len(task)
    expected = _PARTS[level] - ({"input"} if not task.questions else set())
    require(set(encoded) == expected, f"it encodes {sorted(encoded)}, expected {sorted(expected)}")
    for part, values in encoded.items():
        require(len(values) == count, f"{count} examples have {len(values)} times {part}")
    for part in ("input", "output"):
        for row, tokens in enumerate(encoded.get(part, ())):
            wrong = [token for token in tokens if not 0 <= token < task.known.source.size]
            what = f"the {part} of example {row} has the tokens {wrong}, outside of the vocabulary"
            require(not wrong, what)
            require(tokens, f"the {part} of example {row} has no token")
            fits = level is not Level.TOKEN or len(tokens) == len(encoded["targets"][row])
            what = f"example {row} has {len(tokens)} tokens and another number of targets, expected as many"
            require(fits, what)
    outputs = task.known.sizes.outputs
    rows = (np.ravel(np.array(targets, dtype=object)) for targets in encoded.get("targets", []))
    numbers = np.array([number for row in rows for number in row if number is not None])
    if numbers.dtype.kind in "iu":
        wrong = numbers[(numbers != IGNORED) & ((numbers < 0) | (numbers >= outputs))].tolist()
        require(not wrong, f"targets are {wrong}, the head has {outputs} outputs")
    require(np.isfinite(numbers).all(), "targets are not finite")


@contract_check()
def targets_arrive_as_encoded(subject: Subject) -> None:
    """A model receives the targets that it encodes: stored, put into a batch, and in single precision."""
    task = _task(subject)
    encoded, level = task.encode(), task.task_type.level
    if "targets" not in encoded:
        return
    split = task.split(inference=True)  # of which nothing is drawn
    found, marked = task.model.targets(split.batch(range(len(split))))
    if level is Level.SEQUENCE:
        expected = np.array(encoded["targets"])
    else:
        rows = Ragged.of(encoded["targets"])
        counts = [int(part.sum()) for part in np.split(rows.present, np.cumsum(rows.lengths)[:-1])]
        require(marked.sum(dim=1).tolist() == counts, f"{counts} tokens have targets, in a batch {marked}")
        found, expected = found[marked], rows.values[rows.present]
    arrived = found.double().numpy()
    require(arrived.shape == expected.shape, f"targets {expected.shape} arrive as {arrived.shape}")
    if not expected.size:
        return
    # The model learns differences, which rounding must not make larger or smaller than this.
    allowed = 1e-4 * np.ptp(expected) or 1e-6 * np.abs(expected).max()
    differences = np.abs(arrived - expected)
    at = np.unravel_index(differences.argmax(), differences.shape)
    what = f"the target {expected[at]} arrives at the model as {arrived[at]}"
    require(differences.max() <= allowed, what)


@contract_check()
def encoding_is_repeatable(subject: Subject) -> None:
    """Examples give the same numbers each time, from any object, alone and together."""
    task = _task(subject)
    whole = task.encode()
    require(task.encode() == whole, "encoded again, examples are other numbers")
    other: TaskType = subject.create()
    other.state = task.task_type.state
    require(task.encode(task_type=other) == whole, "another object encodes other numbers")
    for row in range(len(task)):
        alone = task.encode(_only(task.examples, row))
        for part, values in whole.items():
            what = f"the {part} of example {row} is {alone[part][0]} alone and {values[row]} among others"
            require(alone[part][0] == values[row], what)


@contract_check()
def questions_are_read_as_their_examples(subject: Subject) -> None:
    """Without outputs an example has the same input, and it is known which tokens are to be labeled.

    The inputs of an example as they are displayed, if a user types them, are encoded the same.
    """
    task = _task(subject)
    whole, columns = task.encode(), task.task_type.columns
    if task.questions:
        question = task.encode(task.questions)
        outputs = " and ".join(column.name for column in columns if column.role == "output")
        require(question["input"] == whole["input"], f"without {outputs} the inputs are different")
        if task.task_type.level is Level.TOKEN:
            require("targets" in question, "questions have no targets: which tokens are to be labeled?")
            marks = [Ragged.of(encoded["targets"]).present.tolist() for encoded in (whole, question)]
            require(marks[0] == marks[1], "in questions other tokens have a target than in examples")
    split, names = task.split(), [column.name for column in columns]
    part = "input" if task.questions else "output"
    for row in range(len(split)):
        text = split.input(row)
        typed = task.task_type.example_from_text(text)
        known = set(typed) <= set(names)
        require(known, f"the question {text!r} has {sorted(typed)}, the columns are {names}")
        found = task.encode({name: [value] for name, value in typed.items()})[part][0]
        what = f"the question {text!r} is read as {found}, the example as {whole[part][row]}"
        require(found == whole[part][row], what)


@contract_check()
def unseen_labels_are_refused(subject: Subject) -> None:
    """A label or tag that was not learned is an ExampleError with the label and the row of its example."""
    task = _task(subject)
    for column in task.task_type.columns:
        values = list(task.examples.get(column.name, ()))
        at = max((row for row, value in enumerate(values) if value), default=None)
        if column.holds not in ("label", "labels", "tags") or column.role != "output" or at is None:
            continue
        values[at] = _UNSEEN if column.holds == "label" else [*values[at][:-1], _UNSEEN]
        try:
            task.encode({**task.examples, column.name: values})
        except ExampleError as error:
            what = f"for an unseen one in example {at} it reports example {error.row}"
            require(error.row == at, what)
            require(_UNSEEN in str(error), f"the message lacks the unknown {column.name}: {error}")
        else:
            fail(f"{column.name} that training never saw are encoded, expected an ExampleError")


@contract_check()
def draws_follow_their_generators(subject: Subject) -> None:
    """Random choices come from the generator of the example: the same again, alone and together.

    The examples that were given are not changed.
    """
    task = _task(subject)
    parts: dict[str, Any] = dict(task.encode())
    if "targets" in parts:
        token = task.task_type.level is Level.TOKEN
        parts["targets"] = Ragged.of(parts["targets"]) if token else np.array(parts["targets"])
    tokens = {part: Ragged.of(parts[part]) for part in ("input", "output") if part in parts}
    encoded = Encoded(tokens.get("input"), tokens.get("output"), parts.get("targets"))
    before, rows = _values(encoded), range(len(encoded))

    def drawn(given: Encoded, rows: Sequence[int]) -> dict[str, list[Any]]:
        generators = [np.random.default_rng([1, row]) for row in rows]
        return _values(task.task_type.draw(given, generators))

    whole = drawn(encoded, rows)
    require(_values(encoded) == before, "draw changes the examples that it is given")
    require(drawn(encoded, rows) == whole, "the same generators draw something else")
    for row in rows:
        alone = drawn(take(encoded, [row]), [row])
        for part, values in whole.items():
            what = f"a draw for the {part} of an example depends on other examples"
            require(alone[part][0] == values[row], what)


def _values(encoded: Encoded) -> dict[str, list[Any]]:
    """Returns the numbers of each example, with None in place of NaN, which equals nothing."""
    found: dict[str, list[Any]] = {}
    for part in ("input", "output", "targets", "start"):
        values = getattr(encoded, part)
        if isinstance(values, Ragged):
            found[part] = [[None if value != value else value for value in row] for row in values.rows()]
        elif values is not None:
            found[part] = values.tolist()
    return found


@contract_check()
def a_model_learns_from_it(subject: Subject) -> None:
    """A model of an installed architecture has a finite loss on its examples, and finite gradients."""
    task = _task(subject)
    split = task.split(packed=True)
    loss = task.model(split.batch(range(len(split))))
    require(int(loss.targets) > 0, "there is nothing to be predicted")
    require_finite(loss.total, "the loss is not finite")
    for name, gradient in gradients(task.model, loss.total).items():
        require_finite(gradient, f"the gradient of {name} is not finite")


@contract_check()
def answers_are_of_their_type(subject: Subject) -> None:
    """Each example has one answer of `output_type` that survives JSON, the same in a batch as alone.

    Scores are logarithms of probabilities.
    """
    task = _task(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    answers, output_type = task.answers(), task.task_type.output_type
    require(len(answers) == len(task), f"{len(task)} examples have {len(answers)} answers")
    words = [column.name for column in task.task_type.columns if column.holds == "words"]
    for row, answer in enumerate(answers):
        output: Any = answer.output
        _require_answer(output_type, output, f"the answer to example {row}")
        if output_type is OutputType.TAGS and words:
            count = len(task.questions[words[0]][row])
            require(len(output) == count, f"example {row} has {count} words and {len(output)} tags")
        score = answer.score
        logarithm = score is None or (math.isfinite(score) and score < 1e-6)
        require(logarithm, f"the score of example {row} is {score}, expected the logarithm of a probability")
        (alone,) = task.answers(_only(task.questions, row))
        what = f"example {row} has the answer {output!r} in a batch and {alone.output!r} alone"
        require(_same(output, alone.output), what)
        what = f"the answer to example {row} scores {score} in a batch and {alone.score} alone"
        require(_same(score, alone.score), what)


@contract_check()
def alternatives_follow_the_best(subject: Subject) -> None:
    """The first of two answers to an example is its only answer, and the second scores no higher.

    Asked for more answers than there are, it raises ConfigurationError.
    """
    task = _task(subject)
    if task.task_type.level is Level.NEXT_TOKEN:
        return
    try:
        count = 1 + len(task.answers(n_best=100_000)[0].alternatives)
        fail(f"asked for 100,000 answers it gives {count}, expected an error")
    except ConfigurationError:
        pass
    try:
        answers = task.answers(n_best=2)
    except ConfigurationError:
        return
    for row, (two, one) in enumerate(zip(answers, task.answers(), strict=True)):
        ranked = [two, *two.alternatives]
        require(len(ranked) == 2, f"asked for 2 answers to example {row}, it gives {len(ranked)}")
        what = f"the best of 2 answers to example {row} is {two.output!r}, the only one {one.output!r}"
        require(_same(two.output, one.output), what)
        scores = [answer.score for answer in ranked if answer.score is not None]
        in_order = all(first >= second - 1e-6 for first, second in pairwise(scores))
        require(in_order, f"the answers to example {row} score {scores}, expected the best first")


@contract_check()
def references_are_answers(subject: Subject) -> None:
    """Each example has at least one right answer, of `output_type`, that survives JSON."""
    task = _task(subject)
    split = task.split()
    for row in range(len(split)):
        references = task.task_type.references(split.example(row))
        what = f"the references of example {row} are {references!r}, expected a list of answers"
        require(isinstance(references, list) and references, what)
        for reference in references:
            _require_answer(task.task_type.output_type, reference, f"a reference of example {row}")


def _same(one: object, other: object) -> bool:
    """Returns whether two answers are the same except for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return one == other


_TEXT: tuple[str, Callable[[object], bool]] = ("a text", lambda value: isinstance(value, str))
_LIST: tuple[str, Callable[[object], bool]] = ("a list of text", is_list_of_text)
_IS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys((OutputType.TEXT, OutputType.LABEL, OutputType.TOKENS), _TEXT),
    **dict.fromkeys((OutputType.LABELS, OutputType.TAGS), _LIST),
    OutputType.NUMBER: ("a finite float", lambda value: isinstance(value, float) and math.isfinite(value)),
}


def _require_answer(output_type: str, value: Any, what: str) -> None:
    words, holds = _IS.get(output_type, ("some value", lambda value: value is not None))
    require(holds(value), f"{what} is {value!r}, expected {words} for answers of type {output_type}")
    same = json.loads(json.dumps(value)) == (list(value) if isinstance(value, tuple) else value)
    require(same, f"{what} does not survive JSON")
