"""`plugformer predict`: a trained model's answers to texts."""

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from plugformer.errors import ConfigurationError, DataError, PlugformerError
from plugformer_cli.options import AsJson, Device, LocalManifest, RunPath, RunSettings, installed
from plugformer_cli.printing import print_device
from plugformer_cli.records import improbable, record

if TYPE_CHECKING:
    from plugformer.interfaces import Prediction
    from plugformer.runs import TrainedModel

Answer = Callable[..., "list[Prediction | PlugformerError]"]
"""Answers texts, as `TrainedModel.predict_each` does."""

PORTION = 1000
"""Texts that are answered together at most."""

EXAMPLES = (
    'plugformer predict runs/dates-20260102-120000 "March 5, 1996" "7/4/76"',
    "plugformer predict runs/dates-20260102-120000 --file dates.txt --scores",
    "cat dates.txt | plugformer predict runs/dates-20260102-120000 --json",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; standard input by default.")
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
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Texts are JSON objects with a value for each input column.")
    ] = False,
    threshold: Annotated[
        float, typer.Option(metavar="P", min=0, max=1, help="Omit outputs with a probability below P.")
    ] = 0.0,
    among: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts, one on each line: print the nearest of them.")
    ] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="Print the vector of each text.")] = False,
    name: Annotated[
        str, typer.Option("--input", metavar="NAME", help="With --vectors: which input texts are.")
    ] = "",
    settings: RunSettings = None,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Print a trained model's outputs for texts.

    Texts are given as arguments, as lines of a file, or as lines of standard input. With --json-lines each is
    an object such as {"question": "2 + 1", "candidates": ["3", "4"]}. With --json each line printed is
    {"input", "output", "score"}; the score is the natural logarithm of the whole output's probability. With
    --n-best every text gets N lines, or one line of JSON whose "alternatives" hold the others.

    A model with a vector for each text finds the nearest of those in a file (--among), or prints vectors
    (--vectors): of the first input of the task type, or of the one that --input names.

    A text that is too long (unless the task truncates) or not UTF-8 gets an empty line, with --json an
    "output" of null and an "error". So does one whose probability is below --threshold. Standard error says
    why, and what was truncated or unknown. The exit status is 2 if there was an error.
    """
    if among is not None and vectors:
        raise ConfigurationError("--among and --vectors exclude each other: give one")
    if json_lines and (vectors or among is not None):
        raise ConfigurationError("--json-lines goes with neither --among nor --vectors: leave one out")
    if texts and file is not None:
        raise ConfigurationError("TEXT and --file exclude each other: give one")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # as the texts, whatever the system's is
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file is None else stack.enter_context(_opened(file))
        from plugformer import load

        with contextlib.redirect_stdout(sys.stderr):  # components may print
            model = load(run, installed(ctx, registry), overrides=settings or [], device=device)
        print_device(model)
        answer: Answer = partial(model.predict_each, n_best=n_best)
        if json_lines:
            answer = partial(_objects, answer)
        if vectors or among is not None:
            answer = _by_vectors(model, None if among is None else _texts(among), name, n_best)
        printer = _Printer(answer, n_best, scores=scores, threshold=threshold, as_json=as_json)
        if not texts and file is None and sys.stdin.isatty() and sys.stdout.isatty():
            _converse(printer)
            return
        for portion in [texts] if texts else lines(stream):
            for start in range(0, len(portion), PORTION):
                printer.print(portion[start : start + PORTION])
    printer.end()


class _Printer:
    """Prints answers, and notes about the texts on standard error."""

    def __init__(self, answer: Answer, n_best: int, *, scores: bool, threshold: float, as_json: bool) -> None:
        self.answer = answer
        self.n_best = n_best
        self.scores = scores
        self.threshold = threshold
        self.as_json = as_json
        self.count = 0
        self.errors: list[PlugformerError] = []

    def print(self, texts: list[str]) -> None:
        """Prints a line for each text, or `n_best` lines."""
        with contextlib.redirect_stdout(sys.stderr):
            answers = self.answer(texts, first=self.count)
        for text, answer in zip(texts, answers, strict=True):
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

    def _note(self, text: str, answer: "Prediction") -> None:
        """Prints what was truncated, unknown or improbable."""
        notes = ["is empty"] * (not text.strip())
        notes += ["is too long: only its beginning was read"] * answer.truncated
        notes += [f"unknown: {', '.join(map(repr, answer.unknown))}"] * bool(answer.unknown)
        if why := improbable(answer, self.threshold):
            notes.append(f"no answer: {why}")
        for note in notes:
            typer.echo(f"text {self.count}: {note}", err=True)

    def _line(self, answer: "Prediction") -> str:
        if improbable(answer, self.threshold):
            return ""
        text = re.sub(r"\r\n|\r|\n", " ", answer.text)  # one line for each text
        probability = "" if answer.probability is None else format(answer.probability, ".4g")
        return f"{probability}\t{text}" if self.scores else text


def _objects(answer: Answer, texts: Sequence[str], *, first: int) -> list["Prediction | PlugformerError"]:
    """Answers texts that are JSON objects with values by column."""
    examples: list[Any] = []
    faults: dict[int, PlugformerError] = {}
    for row, text in enumerate(texts):
        try:
            examples.append(json.loads(text))
        except ValueError as error:
            faults[row] = DataError(f"{text[:40]!r} is no JSON: {error}")
            continue
        if not isinstance(examples[-1], dict):
            faults[row] = DataError(f"{text[:40]!r} is no object; write {{COLUMN: VALUE, ...}}")
            examples.pop()
    answers = iter(answer(examples, first=first) if examples else ())
    return [faults[row] if row in faults else next(answers) for row in range(len(texts))]


def _by_vectors(model: "TrainedModel", candidates: list[str] | None, name: str, n_best: int) -> Answer:
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

    def answer(texts: Sequence[str], *, first: int = 0) -> list["Prediction | PlugformerError"]:  # noqa: ARG001
        try:
            return [*find(model.vectors(texts, name))]
        except PlugformerError as error:
            return [error] if len(texts) == 1 else [found for text in texts for found in answer([text])]

    return answer


def _texts(file: Path) -> list[str]:
    """Returns the lines of a file."""
    with _opened(file) as stream:
        return [line for portion in lines(stream) for line in portion]


def lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yields the lines of UTF-8 text in the portions in which they arrive.

    A file gives many at a time, which is fast; a slow writer gets an answer to each line at once. Bytes that
    are not UTF-8 become lone surrogates.
    """
    rest = b""
    while portion := stream.read1(1 << 16):  # type: ignore[attr-defined]  # every buffered reader has it
        *complete, rest = (rest + portion).split(b"\n")
        if complete:
            yield [_decoded(line) for line in complete]
    if rest:
        yield [_decoded(rest)]


def _decoded(line: bytes) -> str:
    """Returns a line as text, without carriage return and byte order mark."""
    return line.removesuffix(b"\r").decode(errors="surrogateescape").removeprefix("\ufeff")


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; give an existing file") from error


def _converse(printer: _Printer) -> None:
    """Asks for texts until the user ends it; a text without an answer does not end it."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (gives `input` editing and history, where it exists)
    typer.echo("one text on each line; Ctrl-D ends", err=True)
    with contextlib.suppress(EOFError):
        while True:
            printer.print([input("> ")])
    typer.echo()
