"""`plugformer predict`: a trained model's answers to texts, as fast as they come."""

import contextlib
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TextIO

import typer

from plugformer.commands.parameters import AsJson, Device, LocalManifest, RunPath, RunSettings, installed
from plugformer.commands.printing import print_device
from plugformer.errors import ConfigurationError, DataError, PlugformerError

if TYPE_CHECKING:
    from plugformer.interfaces import Prediction
    from plugformer.runs.loading import TrainedModel

PORTION = 1000
"""Texts that are answered together at most, so that progress is seen."""

NOTES = 20
"""Notes about single texts that are printed; what keeps a text from an answer is always printed."""

EXAMPLES = (
    'plugformer predict runs/dates-20260102-120000 "March 5, 1996" "7/4/76"',
    "plugformer predict runs/dates-20260102-120000 --file dates.txt --scores",
    "cat dates.txt | plugformer predict runs/dates-20260102-120000 --json",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; standard input if none is given.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of texts, one on each line.")
    ] = None,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", min=1, help="Outputs for each text, the best first.")
    ] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print each output's probability and a tab in front of it.")
    ] = False,
    threshold: Annotated[
        float,
        typer.Option(metavar="P", min=0, max=1, help="Leave out outputs with a probability below P."),
    ] = 0.0,
    settings: RunSettings = None,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Print a trained model's outputs for texts.

    Texts are given as arguments, as lines of a file, or as lines of standard input. With --json each line is
    {"input", "output", "score"}; the score is the natural logarithm of the whole output's probability. With
    --n-best every text gets N lines, or one of JSON whose "alternatives" hold the others. --set changes
    settings of decoding.

    A text without an answer, because it is too long (unless the task truncates) or not UTF-8, gets an empty
    line, with --json an "output" of null and an "error"; so does one whose probability is below --threshold.
    Standard error names it, and what was cut or unknown. The status is 2 if a text had no answer, but for
    --threshold.
    """
    _check_arguments(texts, file, threshold)
    _write_utf8()
    with contextlib.ExitStack() as stack:
        source = None if file is None else stack.enter_context(_opened(file))
        from plugformer.runs.loading import load
        from plugformer.runs.requirements import changeable

        overrides = changeable(settings or [], ["decoding"])
        with _messages():
            model = load(run, installed(ctx, registry), overrides=overrides, device=device)
        print_device(model)
        answers = _Answers(model, n_best, scores=scores, threshold=threshold, as_json=as_json)
        if texts:
            answers.unit = "text"
            answers.print(texts)
        elif source is None and _is_conversation():
            _converse(answers)
            return
        else:
            answers.shown = _on_one_line
            stream = source or sys.stdin.buffer
            advance = stack.enter_context(_progress(answers, stream))
            for chunk in lines(stream):
                for start in range(0, len(chunk), PORTION):
                    answers.print(chunk[start : start + PORTION])
                    advance()
    answers.end()


def _messages() -> contextlib.redirect_stdout[TextIO]:
    """Returns a context in which what components print goes to standard error: it is no answer."""
    return contextlib.redirect_stdout(sys.stderr)


def _check_arguments(texts: list[str] | None, file: Path | None, threshold: float) -> None:
    """Refuses what the options' types allow and means nothing."""
    if math.isnan(threshold):  # neither below 0 nor above 1
        raise ConfigurationError("--threshold is nan, expected a probability from 0 to 1")
    if texts and file is not None:
        raise ConfigurationError("TEXT and --file exclude each other: give one")
    if not texts and file is None and sys.stdin is None:
        raise ConfigurationError("no texts to read: standard input is closed; give TEXT or --file")


@dataclass
class _Answers:
    """Prints what a model answers, and notes on what it could not.

    Attributes:
        unit: What a text is called in notes.
        note: Prints a note.
        shown: Returns an answer's text as it is printed without --json.
        count: Texts so far.
    """

    model: "TrainedModel"
    n_best: int
    scores: bool
    threshold: float
    as_json: bool
    unit: str = "line"
    note: Callable[[str], None] = field(default=lambda note: typer.echo(note, err=True))
    shown: Callable[[str], str] = str
    count: int = 0
    _notes: int = 0
    _faults: list[PlugformerError] = field(default_factory=list)

    def print(self, texts: list[str]) -> None:
        """Prints a line for each text."""
        with _messages():
            answers = self.model.predict_each(texts, first=self.count, n_best=self.n_best)
        for text, answer in zip(texts, answers, strict=True):
            self.count += 1
            if isinstance(answer, PlugformerError):
                self._faults.append(answer)
                self.note(f"{self.unit} {self.count}: no answer: {answer}")
                self._print_none(text, str(answer))
                continue
            self._describe(text, answer)
            if self.as_json:
                typer.echo(json.dumps(self._record(text, answer), ensure_ascii=False))
            else:
                typer.echo("\n".join(map(self._line, [answer, *answer.alternatives])))
        # `echo` has left nothing in the buffer, so that a reader has every line at once.

    def end(self) -> None:
        """Prints the remaining notes after the last text.

        Raises:
            PlugformerError: A text had no answer.
        """
        if self._notes > NOTES:
            self.note(f"and {self._notes - NOTES:,} more notes; --json has them all")
        if self._faults and self.count == 1:
            raise self._faults[0]
        if self._faults:
            raise DataError(
                f"{len(self._faults):,} of {self.count:,} {self.unit}s had no answer; "
                "correct those named above"
            )

    def _describe(self, text: str, answer: "Prediction") -> None:
        """Notes what was cut, unknown or improbable."""
        ranked = [answer, *answer.alternatives]
        notes = ["is empty"] * (not text.strip())
        notes += ["is too long: only its beginning was read"] * answer.truncated
        notes += [f"unknown: {', '.join(map(repr, answer.unknown))}"] * bool(answer.unknown)
        if self._is_improbable(answer):
            notes.append(f"no answer: {self._improbable(answer)}")
        elif not self.as_json and any(self.shown(each.text) != each.text for each in ranked):
            notes.append("the answer has line breaks: printed as spaces, with --json as they are")
        for note in notes:
            self._notes += 1
            if self._notes <= NOTES:
                self.note(f"{self.unit} {self.count}: {note}")

    def _print_none(self, text: str, error: str) -> None:
        shown = text.encode(errors="replace").decode()
        record = {"input": shown, "output": None, "error": error}
        typer.echo(json.dumps(record, ensure_ascii=False) if self.as_json else "\n" * (self.n_best - 1))

    def _line(self, answer: "Prediction") -> str:
        if self._is_improbable(answer):
            return ""
        text = self.shown(answer.text)
        if not self.scores:
            return text
        return f"{'' if answer.probability is None else format(answer.probability, '.4g')}\t{text}"

    def _record(self, text: str, answer: "Prediction") -> dict[str, Any]:
        record: dict[str, Any] = {"input": text, "output": answer.output, "score": answer.score}
        if self._is_improbable(answer):
            record |= {"output": None, "error": self._improbable(answer)}
        if answer.truncated:
            record["truncated"] = True
        if answer.unknown:
            record["unknown"] = list(answer.unknown)
        others = [
            {"output": each.output, "score": each.score}
            for each in answer.alternatives
            if not self._is_improbable(each)
        ]
        return {**record, "alternatives": others} if others else record

    def _is_improbable(self, answer: "Prediction") -> bool:
        return answer.probability is not None and answer.probability < self.threshold

    def _improbable(self, answer: "Prediction") -> str:
        return f"its probability {answer.probability:.4g} is below {self.threshold:g}"


def _on_one_line(text: str) -> str:
    """Returns a text with a space for each line break, so that the lines of answers are those of texts."""
    return re.sub(r"\r\n|\r|\n", " ", text)


def lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yields the lines of a stream in the portions in which they come.

    A file gives many at a time, which is fast; a slow writer gets an answer to each line at once. Bytes that
    are not UTF-8 become lone surrogates, as with Python's error handler "surrogateescape".

    Args:
        stream: UTF-8 text.
    """
    count = 0
    parts: list[bytes] = []  # of a line that is not complete
    while portion := stream.read1(1 << 16):  # type: ignore[attr-defined]  # every buffered reader has it
        end, *others = portion.split(b"\n")
        parts.append(end)
        if others:
            complete, rest = [b"".join(parts), *others[:-1]], others[-1]
            yield [_decoded(line, count + number) for number, line in enumerate(complete, start=1)]
            count, parts = count + len(complete), [rest]
    if rest := b"".join(parts):
        yield [_decoded(rest, count + 1)]


def _decoded(line: bytes, number: int) -> str:
    encoding = "utf-8-sig" if number == 1 else "utf-8"
    return line.removesuffix(b"\r").decode(encoding, errors="surrogateescape")


@contextlib.contextmanager
def _progress(answers: _Answers, stream: BinaryIO) -> Iterator[Callable[[], None]]:
    """Yields a function that advances a progress bar; terminals that also show the answers have none."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    size = os.fstat(stream.fileno()).st_size if stream.seekable() else None
    columns = (BarColumn(), TextColumn("{task.fields[texts]:,} texts"), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        answers.note = lambda note: console.print(note, markup=False, highlight=False)
        task = bar.add_task("texts", total=size, texts=0)
        yield lambda: bar.update(
            task, completed=stream.tell() if size else 0, texts=answers.count, refresh=True
        )


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror}; give an existing file to --file"
        ) from error


def _write_utf8() -> None:
    """Makes standard output take any answer: UTF-8, as texts are; in a terminal what that can show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")


def _is_conversation() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _converse(answers: _Answers) -> None:
    """Asks for texts until the user ends them; one that cannot be answered does not end the conversation."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (gives `input` editing and history, where there is one)
    typer.echo("one text on each line; Ctrl-D ends", err=True)
    while True:
        try:
            text = input("> ")
        except EOFError:
            typer.echo()
            return
        try:
            answers.print([text])
        except PlugformerError as error:
            typer.echo(f"Error: {error}", err=True)
