"""Answers to questions as records, of which every output of `predict` is made."""

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from plugformer.errors import ConfigurationError, DataError, PlugformerError
from plugformer_cli.printing import print_json
from plugformer_cli.questions import Question

if TYPE_CHECKING:
    from plugformer.interfaces import Example, Prediction
    from plugformer.runs import TrainedModel

Answer = Callable[..., "list[Prediction | PlugformerError]"]
"""Answers texts or examples, as `TrainedModel.predict_each` does."""

Records = Callable[..., list[dict[str, Any]]]
"""Returns the records of answers to questions, of which the first has a number `first`."""


def record(text: Any, answer: "Prediction | PlugformerError", *, threshold: float = 0.0) -> dict[str, Any]:
    """Returns what `predict --json` prints of a text's answer.

    It has `input`, `output` and `score`, the natural logarithm of the output's probability; where they apply
    `truncated`, `unknown`, `alternatives` and `probabilities` of `Prediction`. A text without an answer has
    an `output` of None, and says why in `error`; it has no score if the model could not answer.

    Args:
        text: The input as the user gave it: a text, or values by column.
        answer: Its answer, or why it has none.
        threshold: Answers with a lower probability are omitted.
    """
    if isinstance(answer, PlugformerError):
        return {"input": text, "output": None, "error": str(answer)}
    found: dict[str, Any] = {"input": text, "output": answer.output, "score": answer.score}
    if error := _improbable(answer, threshold):
        found |= {"output": None, "error": error}
    if answer.truncated:
        found["truncated"] = True
    if answer.unknown:
        found["unknown"] = list(answer.unknown)
    probable = [other for other in answer.alternatives if not _improbable(other, threshold)]
    if probable:
        found["alternatives"] = [{"output": other.output, "score": other.score} for other in probable]
    if answer.probabilities is not None:
        found["probabilities"] = answer.probabilities
    return found


def _improbable(answer: "Prediction", threshold: float) -> str:
    """Returns why an answer is omitted; an empty text if it is not."""
    if answer.probability is None or answer.probability >= threshold:
        return ""
    return f"its probability {answer.probability:.4g} is below {threshold:g}"


def failed(record: dict[str, Any]) -> bool:
    """Returns whether a record says that the model could not answer."""
    return "score" not in record


def records(
    answer: Answer, questions: Sequence[Question], *, first: int, threshold: float
) -> list[dict[str, Any]]:
    """Answers questions; an error in place of one is its answer.

    Args:
        answer: Of the model.
        questions: The questions.
        first: The number of the first; random choices depend on it.
        threshold: Answers with a lower probability are omitted.
    """
    sound = [question.asked for question in questions if not isinstance(question.asked, PlugformerError)]
    with contextlib.redirect_stdout(sys.stderr):  # components may print
        answers = iter(answer(sound, first=first) if sound else ())
    return [
        record(
            question.shown,
            question.asked if isinstance(question.asked, PlugformerError) else next(answers),
            threshold=threshold,
        )
        for question in questions
    ]


def prediction_of(found: Mapping[str, Any]) -> "Prediction":
    """Returns the output of a record, or of one of its alternatives."""
    from plugformer.interfaces import Prediction

    return Prediction(found["output"], found["score"])


def lines(found: Mapping[str, Any], n_best: int, *, scores: bool) -> list[str]:
    """Returns `n_best` lines for a record; each may have the probability and a tab in front."""
    outputs = [found] * (found["output"] is not None) + found.get("alternatives", [])
    written = []
    for each in map(prediction_of, outputs):
        probability = "" if each.probability is None else format(each.probability, ".4g")
        written.append(f"{probability}\t{one_line(each.text)}" if scores else one_line(each.text))
    return written + [""] * (n_best - len(written))


def one_line(text: str) -> str:
    """Returns a text with spaces in place of ends of lines."""
    return re.sub(r"\r\n|\r|\n", " ", text)


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


def print_answers(
    asked: Iterable[list[Question]], answers: Records, n_best: int, *, scores: bool, as_json: bool
) -> None:
    """Prints answers, and notes about the questions on standard error.

    Args:
        asked: Portions of the questions.
        answers: Returns the records of some questions.
        n_best: Lines for each question.
        scores: Whether lines begin with the probability.
        as_json: Whether records are printed instead.

    Raises:
        DataError: Some have no answer.
    """
    count = errors = 0
    for portion in asked:
        for found in answers(portion, first=count):
            count += 1
            errors += failed(found)
            for note in _notes(found):
                typer.echo(f"text {count}: {note}", err=True)
            if as_json:
                print_json(found)
            else:
                typer.echo("\n".join(lines(found, n_best, scores=scores)))
    if errors:
        told = f"{errors:,} of {count:,} texts had no answer; correct those above"
        raise DataError("it had no answer; correct it" if count == 1 else told)


def _notes(found: dict[str, Any]) -> Iterator[str]:
    """Yields what was truncated, unknown, improbable or without an answer."""
    if not failed(found) and isinstance(found["input"], str) and not found["input"].strip():
        yield "is empty"
    if "truncated" in found:
        yield "is too long: only its beginning was read"
    if "unknown" in found:
        yield f"unknown: {', '.join(map(repr, found['unknown']))}"
    if "error" in found:
        yield f"no answer: {found['error']}"
