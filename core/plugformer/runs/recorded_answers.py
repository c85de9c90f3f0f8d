"""Answers to made-up questions, recorded when training ends: they show whether changed code answers alike."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import PlugformerError
from plugformer.evaluation.report import TOLERANCE
from plugformer.interfaces import SPECIAL_TOKENS, Example, Prediction

if TYPE_CHECKING:
    from plugformer.runs.loading import TrainedModel

QUESTIONS = 4
TOKENS = 6


def record_answers(trained: "TrainedModel") -> list[dict[str, Any]]:
    """Returns `input`, `output` and `score` for each question that the model can answer, for JSON."""
    try:
        return _answers(trained, _questions(trained))
    except Exception:  # a type that takes no made-up question, a vocabulary without words: training has ended
        return []


def same_answers(trained: "TrainedModel", recorded: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether a model gives recorded answers: outputs are equal, numbers within the tolerance."""
    now = _answers(trained, [record["input"] for record in recorded])
    return _close([dict(record) for record in recorded], now)


def _questions(trained: "TrainedModel") -> list[Example]:
    """Returns made-up questions, with texts from the vocabulary: a published run names none of its data."""
    task_type, tokenizer = trained.experiment.task_type, trained.processor.source
    columns = [column for column in trained.experiment.columns if not column.optional]
    asked = [column.name for column in columns if column.role == "input"] or [columns[0].name]
    examples = list(task_type.check_examples)
    draw, ordinary = random.Random(0), range(len(SPECIAL_TOKENS), tokenizer.size)  # noqa: S311
    for _ in range(0 if examples else QUESTIONS):
        example: dict[str, Any] = {}
        for column in columns:
            value = column.kind.example(draw, example.get(column.along or ""))
            if isinstance(value, str) and column.name in asked:
                tokens = draw.choices(ordinary, k=TOKENS)
                value = " ".join([*tokenizer.decode([tokens]), *task_type.mask_tokens[:1]])
            example[column.name] = value
        examples.append(example)
    return [{name: example[name] for name in asked if name in example} for example in examples]


def _answers(trained: "TrainedModel", questions: Sequence[Example]) -> list[dict[str, Any]]:
    answers: Sequence[Prediction | PlugformerError]
    try:
        if trained.model.head.depends_on == "batch":  # it finds texts among others, by vectors
            texts = [str(next(iter(question.values()))) for question in questions]
            answers = list(map(Prediction, trained.vectors(texts).tolist()))
        else:
            answers = trained.predict_each(questions)
    except PlugformerError:  # scores that are not finite
        return []
    return [
        {"input": question, "output": answer.output, "score": answer.score}
        for question, answer in zip(questions, answers, strict=True)
        if isinstance(answer, Prediction)
    ]


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    return bool(one == other)
