"""Answers on standard output, and notes about the texts on standard error."""

import contextlib
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from plugformer.errors import DataError, PlugformerError
from plugformer_cli.answering import Answer, answered
from plugformer_cli.records import improbable, record

if TYPE_CHECKING:
    from plugformer.interfaces import Example, Prediction


def one_line(text: str) -> str:
    """Returns a text with spaces in place of ends of lines."""
    return re.sub(r"\r\n|\r|\n", " ", text)


class AnswerPrinter:
    """Prints answers, and notes about the texts on standard error."""

    def __init__(self, answer: Answer, n_best: int, *, scores: bool, threshold: float, as_json: bool) -> None:
        self.answer = answer
        self.n_best = n_best
        self.scores = scores
        self.threshold = threshold
        self.as_json = as_json
        self.count = 0
        self.errors: list[PlugformerError] = []

    def print(self, texts: "Sequence[str | Example | PlugformerError]") -> None:
        """Prints a line for each text, or `n_best` lines."""
        with contextlib.redirect_stdout(sys.stderr):
            answers = answered(self.answer, texts, first=self.count)
        for question, answer in zip(texts, answers, strict=True):
            text = None if isinstance(question, PlugformerError) else question
            self.count += 1
            if isinstance(answer, PlugformerError):
                self.errors.append(answer)
                typer.echo(f"text {self.count}: no answer: {answer}", err=True)
                printed = [""] * self.n_best
            else:
                self._note(text, answer)
                printed = [self._line(output) for output in (answer, *answer.alternatives)]
            found = record(text, answer, threshold=self.threshold)
            typer.echo(json.dumps(found, ensure_ascii=False) if self.as_json else "\n".join(printed))

    def end(self) -> None:
        """Raises an error if a text had no answer."""
        if self.errors and self.count == 1:
            raise self.errors[0]
        if self.errors:
            raise DataError(
                f"{len(self.errors):,} of {self.count:,} texts had no answer; correct those above"
            )

    def converse(self) -> None:
        """Asks for texts until the user ends it; a text without an answer does not end it."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 (gives `input` editing and history, where it exists)
        typer.echo("one text on each line; Ctrl-D ends", err=True)
        with contextlib.suppress(EOFError):
            while True:
                self.print([input("> ")])
        typer.echo()

    def _note(self, text: "str | Example | None", answer: "Prediction") -> None:
        """Prints what was truncated, unknown or improbable."""
        notes = ["is empty"] * (isinstance(text, str) and not text.strip())
        notes += ["is too long: only its beginning was read"] * answer.truncated
        notes += [f"unknown: {', '.join(map(repr, answer.unknown))}"] * bool(answer.unknown)
        if why := improbable(answer, self.threshold):
            notes.append(f"no answer: {why}")
        for note in notes:
            typer.echo(f"text {self.count}: {note}", err=True)

    def _line(self, answer: "Prediction") -> str:
        if improbable(answer, self.threshold):
            return ""
        probability = "" if answer.probability is None else format(answer.probability, ".4g")
        return f"{probability}\t{one_line(answer.text)}" if self.scores else one_line(answer.text)
