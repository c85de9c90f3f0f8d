"""Answers to questions: of a model, by its vectors, and to texts that are JSON objects."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError, PlugformerError

if TYPE_CHECKING:
    from plugformer.interfaces import Example, Prediction
    from plugformer.runs import TrainedModel

Answer = Callable[..., "list[Prediction | PlugformerError]"]
"""Answers texts or examples, as `TrainedModel.predict_each` does."""


def answered(
    answer: Answer, questions: "Sequence[str | Example | PlugformerError]", *, first: int
) -> "list[Prediction | PlugformerError]":
    """Answers questions; an error in place of one is its answer."""
    sound = [question for question in questions if not isinstance(question, PlugformerError)]
    answers = iter(answer(sound, first=first) if sound else ())
    return [each if isinstance(each, PlugformerError) else next(answers) for each in questions]


def objects(answer: Answer, texts: Sequence[str], *, first: int) -> "list[Prediction | PlugformerError]":
    """Answers texts that are JSON objects with values by column."""
    return answered(answer, [_object(text) for text in texts], first=first)


def _object(text: str) -> "Example | PlugformerError":
    from plugformer_blocks import unique_keys

    try:
        example = json.loads(text, object_pairs_hook=unique_keys)
    except DataError as error:
        return DataError(f"{text[:40]!r}: {error}")
    except ValueError as error:
        return DataError(f"{text[:40]!r} is no JSON: {error}")
    if not isinstance(example, dict):
        return DataError(f"{text[:40]!r} is no object; write {{COLUMN: VALUE, ...}}")
    return example


def by_vectors(model: "TrainedModel", candidates: list[str] | None, name: str, n_best: int) -> Answer:
    """Returns what answers texts with their vectors, or with the nearest candidates if there are any."""
    from plugformer.interfaces import Prediction, TaskType

    task_type, find = model.experiment.task_type, lambda vectors: [Prediction(v.tolist()) for v in vectors]
    if candidates is not None:
        if type(task_type).rank is TaskType.rank:
            raise ConfigurationError("--among: this model finds no texts among others; leave it out")
        names = [part.name for part in task_type.inputs]
        found = model.vectors(candidates, names[1])[:, None].expand(-1, len(names), -1)
        examples = [dict.fromkeys(names, text) for text in candidates]
        find = partial(task_type.rank, vectors=found, examples=examples, n_best=n_best)

    def answer(
        questions: "Sequence[str | Example]",
        *,
        first: int = 0,  # noqa: ARG001 (nothing is random)
    ) -> "list[Prediction | PlugformerError]":
        texts: list[Any] = [
            each if isinstance(each, str) else next(iter(each.values())) for each in questions
        ]
        try:
            return [*find(model.vectors(texts, name))]
        except PlugformerError as error:
            return [error] if len(texts) == 1 else [found for text in texts for found in answer([text])]

    return answer
