"""The contract of baselines, see plugformer.interfaces.metric."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from plugformer.interfaces import Example, LikelihoodBaseline, OutputBaseline, Prediction, TaskType
from plugformer.registry import Kind
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

_TEXTS = ("a red cat sat", "two blue birds sang", "a red dog ran", "blue birds")
_WORDS: list[Example] = [{"words": text.split()} for text in _TEXTS]
_PAIRS: list[Example] = [{"first": text, "second": text[::-1]} for text in _TEXTS]
EXAMPLES: Mapping[str, tuple[Sequence[Example], Sequence[Any]]] = {
    "plugformer:classification": ([{"text": text} for text in _TEXTS], ["cat", "bird", "dog", "bird"]),
    "plugformer:multi-label": ([{"text": text} for text in _TEXTS], [["red"], ["blue"], ["red", "dog"], []]),
    "plugformer:regression": (_PAIRS, [1.0, 2.5, 1.5, 4.0]),
    "plugformer:retrieval": ([{"first": text} for text in _TEXTS], [text.upper() for text in _TEXTS]),
    "plugformer:sequence-to-sequence": (
        [{"source": text} for text in _TEXTS],
        [text.title() for text in _TEXTS],
    ),
    "plugformer:tagging": (_WORDS, [[word[0].upper() for word in each["words"]] for each in _WORDS]),
}
"""Training examples of types of tasks: questions and right answers."""

UNSEEN: Mapping[type, Any] = {str: "Ünknown", list: ["Ünknown", "words"]}
"""Values of questions that nobody has learned from."""

VOCABULARY = 9
_SEQUENCES = tuple(np.array(row) for row in ([1, 5, 6, 5, 6, 7, 2], [1, 5, 6, 8, 2], [5, 6, 7, 7, 2], [6, 2]))


def _fitted(subject: Subject, case: str) -> tuple[OutputBaseline, Sequence[Example], Sequence[Any]]:
    """Returns a baseline that has learned a type of task, questions, and candidates; or skips."""
    baseline: OutputBaseline = subject.create()
    task_type: TaskType = subject.registry.create(Kind.TASK_TYPE, case)
    if not baseline.fits(task_type):
        pytest.skip(f"it does not learn {case}")
    questions, outputs = copy.deepcopy(EXAMPLES[case])
    baseline.fit(questions, outputs)
    require.equal((questions, outputs), EXAMPLES[case], "the examples after it has learned from them")
    unseen = {name: UNSEEN[type(value)] for name, value in questions[0].items()}
    ranks = type(task_type).rank is not TaskType.rank
    return baseline, [*questions, unseen], [*dict.fromkeys(outputs)] if ranks else []


def _of_tokens(subject: Subject) -> LikelihoodBaseline:
    baseline: LikelihoodBaseline = subject.create()
    baseline.fit(_SEQUENCES, VOCABULARY)
    return baseline


@contract_check(cases=tuple(EXAMPLES))
def answers_are_outputs_of_the_task(subject: Subject, case: str) -> None:
    """Each question has an answer of the type of the right ones, also an unseen one; or a candidate."""
    if not issubclass(subject.component, OutputBaseline):
        return
    baseline, questions, candidates = _fitted(subject, case)
    before = copy.deepcopy(questions)
    answers = baseline.answer(questions, candidates, 2)
    require.equal(questions, before, "the questions after they are answered")
    require.equal(len(answers), len(questions), "the number of answers")
    known = EXAMPLES[case][1]
    for question, answer in zip(questions, answers, strict=True):
        require.that(isinstance(answer, Prediction), f"an answer is {answer!r}, expected a Prediction")
        for output in (each.output for each in (answer, *answer.alternatives)):
            fits = output in candidates if candidates else type(output) is type(known[0])
            require.that(fits, f"{question!r} is answered {output!r}, expected one like {known[0]!r}")
            if "words" in question:
                require.equal(len(output), len(question["words"]), f"the number of tags of {question!r}")


@contract_check(cases=tuple(EXAMPLES))
def answers_are_repeatable(subject: Subject, case: str) -> None:
    """The same examples give the same answers, and nothing is drawn from the generators of the process."""
    if not issubclass(subject.component, OutputBaseline):
        return
    with require.undrawn():
        fitted = [_fitted(subject, case) for _ in range(2)]
        found = [baseline.answer(questions, candidates, 2) for baseline, questions, candidates in fitted]
    require.equal(found[1], found[0], "the answers of a second object")


@contract_check()
def probabilities_are_of_tokens(subject: Subject) -> None:
    """Each token after the first has a probability, which is 0 nowhere; those of all tokens sum to 1."""
    if not issubclass(subject.component, LikelihoodBaseline):
        return
    with require.undrawn():
        baseline = _of_tokens(subject)
        found = baseline.log_probabilities(_SEQUENCES)
    for sequence, row in zip(_SEQUENCES, found, strict=True):
        fits = np.shape(row) == (len(sequence) - 1,) and np.isfinite(row).all()
        require.that(fits, f"{sequence.tolist()} has {row}, expected {len(sequence) - 1} finite numbers")
    for given in ([1], [1, 5, 6], [1, 3, 4]):
        following = [np.array([*given, token]) for token in range(VOCABULARY)]
        total = float(np.exp([row[-1] for row in baseline.log_probabilities(following)]).sum())
        require.that(abs(total - 1) < 1e-6, f"the probabilities after {given} sum to {total}, expected 1")


@contract_check()
def probabilities_look_at_nothing_later(subject: Subject) -> None:
    """The probability of a token depends on those before it in its sequence alone."""
    if not issubclass(subject.component, LikelihoodBaseline):
        return
    baseline = _of_tokens(subject)
    whole: list[ndarray] = baseline.log_probabilities(_SEQUENCES)
    for sequence, row in zip(_SEQUENCES, whole, strict=True):
        part = baseline.log_probabilities([sequence[:-1]])[0] if len(sequence) > 2 else row[:-1]
        require.that(np.allclose(part, row[:-1]), f"without its last token {sequence.tolist()} has {part}")
