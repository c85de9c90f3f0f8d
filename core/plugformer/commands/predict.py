"""`plugformer predict`: a trained model's answers to texts, as fast as they come."""

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from plugformer.commands.parameters import AsJson, LocalManifest, RunPath, RunSettings, installed
from plugformer.errors import ConfigurationError, DataError, PlugformerError

if TYPE_CHECKING:
    from plugformer.evaluation.predictor import Prediction
    from plugformer.runs.loading import TrainedModel


EXAMPLES = (
    'plugformer predict runs/dates-20260102-120000 "March 5, 1996" "7/4/76"',
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
    settings: RunSettings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Print a trained model's outputs for texts.

    Texts are given as arguments, as lines of a file, or as lines of standard input. With --json each line is
    {"input", "output", "score"}; the score is the natural logarithm of the output's probability. With
    --n-best every text gets N lines, or one of JSON whose "alternatives" hold the others. --set changes
    settings of decoding.
    """
    if texts and file is not None:
        raise ConfigurationError("TEXT and --file exclude each other: give one")
    with contextlib.ExitStack() as stack:
        source = None if file is None else stack.enter_context(_opened(file))
        from plugformer.runs.loading import load
        from plugformer.runs.overrides import changeable

        overrides = changeable(settings or [], ["decoding"])
        model = load(run, installed(ctx, registry), overrides=overrides)
        answer = partial(_answer, model, n_best=n_best, as_json=as_json)
        if texts:
            answer(texts, 0)
        elif source is None and _is_conversation():
            _converse(answer)
        else:
            first = 0
            for chunk in lines(source or sys.stdin.buffer, str(file or "standard input")):
                answer(chunk, first)
                first += len(chunk)


def lines(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    """Yields the lines of a stream in the portions in which they come.

    A file gives many at a time, which is fast; a slow writer gets an answer to each line at once.

    Args:
        stream: UTF-8 text.
        name: What messages call it.

    Raises:
        DataError: A line is not UTF-8.
    """
    count, rest = 0, b""
    while portion := stream.read1(1 << 16):  # type: ignore[attr-defined]  # every buffered reader has it
        *complete, rest = (rest + portion).split(b"\n")
        if complete:
            yield [_decoded(line, name, count + number) for number, line in enumerate(complete, start=1)]
        count += len(complete)
    if rest:
        yield [_decoded(rest, name, count + 1)]


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:{number}: not UTF-8: byte 0x{line[error.start]:02x}; "
            f"convert it, e.g. with `iconv -f latin1 -t utf-8`"
        ) from error


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror}; give an existing file to --file"
        ) from error


def _answer(model: "TrainedModel", texts: list[str], first: int, *, n_best: int, as_json: bool) -> None:
    """Prints a line for each text; `echo` leaves nothing in the buffer, so that a reader has it at once."""
    for text, prediction in zip(texts, model.predict(texts, first=first, n_best=n_best), strict=True):
        if as_json:
            best, *others = map(_record, [prediction, *prediction.alternatives])
            further = {"alternatives": others} if others else {}
            typer.echo(json.dumps({"input": text, **best, **further}, ensure_ascii=False))
        else:
            typer.echo("\n".join(each.output for each in [prediction, *prediction.alternatives]))


def _record(prediction: "Prediction") -> dict[str, str | float]:
    return {"output": prediction.output, "score": prediction.score}


def _is_conversation() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _converse(answer: Callable[[list[str], int], None]) -> None:
    """Asks for texts until the user ends them; one that cannot be answered does not end the conversation."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (gives `input` editing and history, where there is one)
    typer.echo("one text on each line; Ctrl-D ends", err=True)
    for number in itertools.count():
        try:
            text = input("> ")
        except EOFError:
            typer.echo()
            return
        try:
            answer([text], number)
        except PlugformerError as error:
            typer.echo(f"Error: {error}", err=True)
