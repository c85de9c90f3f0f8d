"""The contract of task types, see plugformer.interfaces.task_type."""

import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ConfigDict, TypeAdapter

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.evaluation import close
from plugformer.interfaces import Encoded, Examples, Level, OutputType, Ragged, TaskType, as_text
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import require_gradients
from plugformer_testing.small import SmallTask, with_kinds
from plugformer_testing.subject import Subject

_UNSEEN = "☃"  # a label that no example has
_NUMBERS = {"targets", "weights"}  # what it encodes besides tokens


def _task(subject: Subject) -> SmallTask:
    return subject.once("task", lambda: SmallTask(subject.create(), registry=subject.registry))


def _other(subject: Subject, state: Any) -> TaskType:
    """Returns another object that has learned the same."""
    other: TaskType = subject.create()
    other.state = state
    return other


def _only(examples: Examples, row: int) -> Examples:
    return {name: [values[row]] for name, values in examples.items()}


@contract_check(given=_task)
def examples_become_batches(task: SmallTask) -> None:
    """It learns from examples, encodes them and draws what is random, and a model reads batches of them."""
    split = task.split()
    generators = [np.random.default_rng(row) for row in range(len(task))]
    drawn = task.task_type.draw(task.encoded(), generators)
    require.that(isinstance(drawn, Encoded), f"`draw` returns {drawn!r}, expected the examples as Encoded")
    for epoch in (None, [1, 0]):
        split.batch(range(len(split)), epoch=epoch)


@contract_check()
def columns_are_sound(subject: Subject) -> None:
    """Columns have different names and known kinds; one at least is tokenized as source; tags have words.

    A column of an aligned kind names in `along` the column that it belongs to, and no other column does.
    """
    columns = with_kinds(subject.create().columns, subject.registry)
    names = [column.name for column in columns]
    require.that(len(set(names)) == len(names), "two of its columns have the same name")
    for column in columns:
        known = names if column.kind.aligned else [None]
        what = f"what the column {column.name!r} of {column.holds} is along"
        require.that(column.along in known, f"{what} is {column.along!r}, expected one of {known}")
    source = any(column.tokenizer == "source" for column in columns)
    require.that(source, "no column is tokenized as source: a model has nothing to read")


@contract_check()
def what_it_learns_survives_json(subject: Subject) -> None:
    """What it learns has the type `state_type`, and read back from JSON it encodes the same."""
    task = _task(subject)
    learned, declared = task.task_type.state, task.task_type.state_type
    schema: TypeAdapter[object] = TypeAdapter(declared, config=ConfigDict(strict=True))
    again = schema.validate_json(json.dumps(learned))
    require.equal(again, learned, "what it learns, read from JSON,")
    same = task.encode(task_type=_other(subject, again)) == task.encode()
    require.that(same, "with the state read from JSON it encodes other numbers")


@contract_check(given=_task)
def numbers_fit_the_level(task: SmallTask) -> None:
    """Examples have tokens of the vocabulary, and targets that the head has an output for.

    At next-token these are tokens to follow; at token, one for each token; else for each example. At vector
    there may be none. An input that is `many` has a list of such rows, at least one.
    """
    encoded, level, outputs = task.encode(), task.task_type.level, task.known.sizes.outputs
    predicted = "output" if level is Level.NEXT_TOKEN else "targets"
    inputs = task.task_type.inputs
    names, many = [{*(part.name for part in inputs if part.many or each)} for each in (True, False)]
    require.that(len(names) == len(inputs) and not names & {"output", "targets"}, f"its inputs are {inputs}")
    require.that(not any(part.many for part in inputs[:-1]), "an input that is many is not the last")
    expected = names if level is Level.VECTOR and predicted not in encoded else {*names, predicted}
    require.equal(set(encoded) - {"weights"}, expected, "what it encodes")
    for part, values in encoded.items():
        require.equal(len(values), len(task), f"the number of times {part}")
        rows = [(row, value) for row, value in enumerate(values if part not in _NUMBERS else ())]
        if part in many:
            require.that(all(values), f"an example has no {part}")
            rows = [(row, tokens) for row, value in rows for tokens in value]
        for row, tokens in rows:
            sound = tokens and all(0 <= token < task.known.source.size for token in tokens)
            require.that(sound, f"the {part} of example {row} is {tokens}, expected tokens of the vocabulary")
            fits = level is not Level.TOKEN or len(tokens) == len(encoded["targets"][row])
            require.that(fits, f"example {row} has {len(tokens)} tokens and another number of targets")
    targets = (np.ravel(np.array(each, dtype=object)) for each in encoded.get("targets", []))
    numbers = np.array([number for row in targets for number in row if number is not None])
    if numbers.dtype.kind in "iu" and level is not Level.VECTOR:  # where heads compare numbers
        wrong = numbers[(numbers < 0) | (numbers >= outputs)].tolist()
        require.that(not wrong, f"targets are {wrong}, the head has {outputs} outputs")
    require.that(np.isfinite(numbers).all(), "targets are not finite")


@contract_check()
def encoding_is_repeatable(subject: Subject) -> None:
    """Examples give the same numbers each time, from any object, alone and together."""
    task = _task(subject)
    whole = task.encode()
    require.that(task.encode() == whole, "encoded again, examples are other numbers")
    other = task.encode(task_type=_other(subject, task.task_type.state))
    require.that(other == whole, "another object encodes other numbers")
    for row in range(len(task)):
        alone = task.encode(_only(task.examples, row))
        for part, values in whole.items():
            require.equal(values[row], alone[part][0], f"the {part} of example {row} among others")


@contract_check(given=_task)
def questions_are_read_as_their_examples(task: SmallTask) -> None:
    """Without outputs an example has the same input, and it is known which tokens are to be labeled.

    The inputs of an example as they are displayed, if a user types them, are encoded the same. That is not
    tried of a list whose items have spaces, which no line of text can say.
    """
    whole, names = task.encode(), {column.name for column in task.task_type.columns}
    if task.questions:
        question = task.encode(task.questions)
        for name in question.keys() - _NUMBERS:
            require.that(question[name] == whole[name], "without outputs the inputs are different")
        if task.task_type.level is Level.TOKEN:
            require.that("targets" in question, "questions have no targets: which tokens are to be labeled?")
            marks = [Ragged.of(encoded["targets"]).present.tolist() for encoded in (whole, question)]
            require.that(marks[0] == marks[1], "in questions other tokens have a target than in examples")
    split = task.split()
    for row in range(len(split)):
        text = split.input(row)
        lists = [value for values in task.questions.values() if isinstance(value := values[row], list)]
        if any(as_text(value).split() != [*map(as_text, value)] for value in lists):
            continue
        typed = task.task_type.example_from_text(text)
        require.that(set(typed) <= names, f"the question {text!r} has {set(typed)}, expected some of {names}")
        read = {
            column.name: [column.kind.read(typed[column.name])]
            for column in task.columns
            if column.name in typed
        }
        for name, values in task.encode(read).items():
            if name not in _NUMBERS:
                require.equal(values[0], whole[name][row], f"what the question {text!r} is read as")


@contract_check(given=_task)
def unseen_labels_are_refused(task: SmallTask) -> None:
    """A label or tag that was not learned is an ExampleError with the label and the row of its example."""
    for column in task.columns:
        values = list(task.examples.get(column.name, ()))
        at = max((row for row, value in enumerate(values) if value), default=None)
        if not column.kind.classes or column.role != "output" or at is None:
            continue
        values[at] = _UNSEEN if isinstance(values[at], str) else [*values[at][:-1], _UNSEEN]
        try:
            task.encode({**task.examples, column.name: values})
        except ExampleError as error:
            named = error.row == at and _UNSEEN in str(error)
            require.that(named, f"{_UNSEEN} in example {at} is reported in example {error.row}: {error}")
        else:
            pytest.fail(
                f"{column.name} that training never saw are encoded, expected an ExampleError", pytrace=False
            )


@contract_check(given=_task)
def draws_follow_their_generators(task: SmallTask) -> None:
    """Random choices come from the generator of the example alone; what was given is not changed.

    An example keeps the number of its rows.
    """
    encoded, every = task.encoded(), range(len(task))

    def drawn(given: Encoded, rows: Sequence[int]) -> Encoded:
        return task.task_type.draw(given, [np.random.default_rng([1, row]) for row in rows])

    before, whole = _written(encoded), drawn(encoded, every)
    for name, part in encoded.inputs.items():
        counts = str(whole.inputs[name].counts), str(part.counts)
        require.equal(*counts, f"the numbers of {name} after a draw")
    require.that(_written(encoded) == before, "draw changes the examples that it is given")
    again = _written(drawn(encoded, every))
    require.that(again == _written(whole), "the same generators draw something else")
    for row in every:
        alone = _written(drawn(encoded.take(np.array([row])), [row]))
        require.that(alone == [again[row]], f"a draw for example {row} depends on other examples")


def _written(encoded: Encoded) -> list[str]:
    """Returns the numbers of each example, written out, since NaN equals nothing."""
    return [repr(encoded.take(np.array([row]))) for row in range(len(encoded))]


@contract_check(given=_task)
def a_model_learns_from_it(task: SmallTask) -> None:
    """A model of an installed architecture has a finite loss on its examples, and finite gradients."""
    split = task.split(packed=True)
    loss = task.model()(split.batch(range(len(split))))
    require.that(int(loss.targets) > 0, "there is nothing to be predicted")
    require.finite(loss.total, "the loss")
    require_gradients(task.model(), loss.total, everywhere=False)


@contract_check(given=_task)
def answers_are_of_their_type(task: SmallTask) -> None:
    """Each example has one answer of `output_type`, alone as in a batch; scores are log-probabilities."""
    if not _answers_alone(task.task_type):
        return
    answers, output_type = task.answers(), task.task_type.output_type
    require.equal(len(answers), len(task), "the number of answers")
    words = [column.along for column in task.columns if column.along]
    for row, answer in enumerate(answers):
        output: Any = answer.output
        _require_answer(output_type, output, f"the answer to example {row}")
        if output_type in (OutputType.TAGS, OutputType.NUMBERS) and words:
            expected = len(task.questions[words[0]][row])
            require.equal(len(output), expected, f"the number of {output_type} of example {row}")
        score = answer.score
        logarithm = score is None or (math.isfinite(score) and score < 1e-6)
        require.that(logarithm, f"the score of example {row} is {score}, no logarithm of a probability")
        (alone,) = task.answers(_only(task.questions, row))
        same = close([output, score], [alone.output, alone.score], 1e-5)
        require.that(same, f"the answer to example {row} is {answer} in a batch, {alone} alone")


@contract_check(given=_task)
def alternatives_follow_the_best(task: SmallTask) -> None:
    """The first of two answers is the only answer, the second scores no higher; too many are an error."""
    if not _answers_alone(task.task_type):
        return
    many, answers = (_answers(task, count) for count in (100_000, 2))
    advice = "let `answer` raise a ConfigurationError if there are fewer than `n_best`"
    require.that(many == [], f"asked for 100,000 answers to each question it returns some: {advice}")
    for row, (two, one) in enumerate(zip(answers, task.answers() if answers else [], strict=True)):
        ranked = [two, *two.alternatives]
        require.equal(len(ranked), 2, f"the number of answers to example {row}, asked for 2,")
        same = close(two.output, one.output, 1e-5)
        require.that(same, f"the best answer to example {row} is {two.output}, the only one {one.output}")
        scores = [answer.score for answer in ranked if answer.score is not None]
        in_order = all(first >= second - 1e-6 for first, second in pairwise(scores))
        require.that(in_order, f"the answers to example {row} score {scores}, expected the best first")


def _answers_alone(task_type: TaskType) -> bool:
    """Returns whether its method `answer` is called: outputs are neither generated nor found among others."""
    return task_type.level is not Level.NEXT_TOKEN and type(task_type).rank is TaskType.rank


@contract_check(given=_task)
def the_nearest_are_found(task: SmallTask) -> None:
    """A type with `rank` finds what is nearest to the first input, among all examples, the best first."""
    task_type, split = task.task_type, task.split()
    if type(task_type).rank is TaskType.rank:
        return
    whole = [split.example(row) for row in range(len(split))]
    by_answer = {as_text(task_type.references(example)[0]): example for example in whole}
    right, examples, own = list(by_answer), list(by_answer.values()), torch.eye(len(by_answer))
    before, after = own.roll(1, dims=0), own.roll(-1, dims=0)
    questions, vectors = after + 0.5 * before, own[:, None].expand(-1, len(task_type.inputs), -1)
    expected = list(zip(right[1:] + right[:1], right[-1:] + right[:-1], strict=True))
    for n_best in (1, 2):
        answers = task_type.rank(questions, vectors, examples, n_best)
        found = [(answer.text, *(other.text for other in answer.alternatives)) for answer in answers]
        require.equal(found, [best[:n_best] for best in expected], f"the {n_best} nearest")


def _answers(task: SmallTask, n_best: int) -> list[Any]:
    try:
        return task.answers(n_best=n_best)
    except ConfigurationError:
        return []


@contract_check(given=_task)
def references_are_answers(task: SmallTask) -> None:
    """Each example has at least one right answer, of `output_type`, that survives JSON."""
    split = task.split()
    for row in range(len(split)):
        references = task.task_type.references(split.example(row))
        listed = isinstance(references, list) and references
        require.that(listed, f"the references of example {row} are {references!r}, expected answers")
        for reference in references:
            _require_answer(task.task_type.output_type, reference, f"a reference of example {row}")


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


_TEXT: tuple[str, Callable[[object], bool]] = ("a text", lambda value: isinstance(value, str))
_IS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys((OutputType.TEXT, OutputType.LABEL, OutputType.TOKENS), _TEXT),
    **dict.fromkeys((OutputType.LABELS, OutputType.TAGS), ("a list of text", _is_list_of_text)),
    OutputType.NUMBER: ("a finite float", _is_number),
    OutputType.NUMBERS: (
        "a list of finite floats",
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
    ),
}


def _require_answer(output_type: str, value: Any, what: str) -> None:
    words, holds = _IS.get(output_type, ("some value", lambda value: value is not None))
    require.that(holds(value), f"{what} is {value!r}, expected {words} for answers of type {output_type}")
    same = json.loads(json.dumps(value)) == (list(value) if isinstance(value, tuple) else value)
    require.that(same, f"{what} does not survive JSON")
