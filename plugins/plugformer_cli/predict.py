"""`plugformer predict`: a trained model's answers to texts."""

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.errors import ConfigurationError
from plugformer_cli.answer_columns import Columns
from plugformer_cli.answer_files import answer_file, refuse_form
from plugformer_cli.answer_printer import AnswerPrinter
from plugformer_cli.answering import Answer, by_vectors, objects
from plugformer_cli.file_prediction import predict_file, progress
from plugformer_cli.options import AsJson, Device, LocalManifest, RunPath, RunSettings, installed
from plugformer_cli.part import Part, hash_of
from plugformer_cli.printing import print_device
from plugformer_cli.questions import TABLES, Lines, Table, ending, lines, opened, places_of

if TYPE_CHECKING:
    from plugformer.runs import TrainedModel

AT_ONCE = 1000
"""Texts that are answered and printed together at most."""

EXAMPLES = (
    'plugformer predict runs/dates-20260102-120000 "March 5, 1996" "7/4/76"',
    "plugformer predict runs/dates-20260102-120000 --file dates.txt --scores",
    "cat dates.txt | plugformer predict runs/dates-20260102-120000 --json",
    "plugformer predict runs/dates --file in.csv --column source=2 --out out.csv",
    "plugformer predict runs/dates --file dates.txt --out iso.jsonl",
    "plugformer predict runs/dates --file dates.txt --out iso.parquet --resume",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; standard input by default.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of texts, one on each line; or a table: .csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=COLUMN",
            help="The table's column, by name or number, for an input of the task; repeatable.",
        ),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line of a .csv or .tsv is a row.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write answers: .txt, .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted --out behind its last complete row.")
    ] = False,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", min=1, help="Outputs for each text, the best first.")
    ] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print each output's probability and a tab in front of it.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="With --out or --json: the probability of each class.")
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
    """Print or write a trained model's outputs for texts.

    Texts are given as arguments, as lines of a file, or as lines of standard input. With --json-lines each is
    an object such as {"question": "2 + 1", "candidates": ["3", "4"]}. With --json each line printed is
    {"input", "output", "score"}; the score is the natural logarithm of the whole output's probability. With
    --n-best every text gets N lines, or one line of JSON whose "alternatives" hold the others.

    A --file that ends in .csv, .tsv, .jsonl or .parquet, perhaps with .gz, is a table with a column for each
    input of the task; --column names others, several of the same input are joined.

    With --out the answers are written in the order of the rows: a .txt has the lines that are printed, a
    table all columns of the file and prediction, probability, error, with --n-best alternatives, with
    --probabilities probabilities, of tags spans. The file appears when it is complete. Until then --resume
    continues behind its last complete row, in the form FILE.part.

    A model with a vector for each text finds the nearest of those in a file (--among), or prints vectors
    (--vectors): of the first input of the task type, or of the one that --input names.

    A text that is too long (unless the task truncates) or not UTF-8 gets an empty line, with --json an
    "output" of null and an "error". So does one whose probability is below --threshold. Standard error says
    why, and what was truncated or unknown. The exit status is 2 if there was an error.
    """
    by_vector = vectors or among is not None
    is_table = file is not None and not json_lines and ending(file) in TABLES
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    for problem, refused in {
        "--among and --vectors exclude each other: give one": among is not None and vectors,
        "--json-lines goes with neither --among nor --vectors: leave one out": json_lines and by_vector,
        "TEXT and --file exclude each other: give one": bool(texts) and file is not None,
        "--out and TEXT exclude each other: write the texts into a --file": bool(texts) and out is not None,
        "--out and --json exclude each other: an --out that ends in .jsonl has JSON": bool(out) and as_json,
        "--resume continues a file of answers: give --file and --out as before": resume
        and (out is None or file is None),
        "--column and --no-header need a table: give --file, ending in .csv, .tsv, .jsonl or .parquet": (
            bool(column) or no_header
        )
        and not is_table,
        "--probabilities goes with neither --among nor --vectors": probabilities and by_vector,
        "--probabilities needs --out, or --json": probabilities and out is None and not as_json,
        "several processes share the rows of a file: give --out": several and out is None,
        "--device: the launcher chooses the device of each process; leave it out": several and bool(device),
    }.items():
        if refused:
            raise ConfigurationError(problem)
    if out is not None:
        refuse_form(out)
    places = places_of(column or [])
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # as the texts, whatever the system's is
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file is None else stack.enter_context(opened(file))
        from plugformer import load
        from plugformer.distributed import Processes

        with contextlib.redirect_stdout(sys.stderr):  # components may print
            place = Processes.join().device if several else device
            model = load(run, installed(ctx, registry), overrides=settings or [], device=place)
        print_device(model)
        answer: Answer = partial(model.predict_each, n_best=n_best)
        if probabilities:
            answer = partial(answer, probabilities=True)
        if json_lines:
            answer = partial(objects, answer)
        if by_vector:
            answer = by_vectors(model, None if among is None else _texts(among), name, n_best)
        questions: Lines | Table = Lines(file)
        if file is not None and is_table:
            questions = _table(file, model, places, only=name if by_vector else None, header=not no_header)
        if out is not None:
            requested = {
                "--file": file and hash_of(file),
                "model file": hash_of(model.place / "model.safetensors"),
                "--set": settings or [],
                "--column": places,
                "--no-header": no_header,
                "--json-lines": json_lines,
                "--n-best": n_best,
                "--scores": scores,
                "--probabilities": probabilities,
                "--threshold": threshold,
                "--among file": among and hash_of(among),
                "--vectors": vectors,
                "--input": name,
            }
            _write(model, questions, answer, Part(out, requested), resume=resume)
            return
        printer = AnswerPrinter(answer, n_best, scores=scores, threshold=threshold, as_json=as_json)
        if not texts and file is None and sys.stdin.isatty() and sys.stdout.isatty():
            printer.converse()
            return
        portions: Iterable[Any] = [texts] if texts else lines(stream)
        if is_table:
            asked = (question.asked for question in questions)
            portions = iter(lambda: list(islice(asked, AT_ONCE)), [])
        for portion in portions:
            for start in range(0, len(portion), AT_ONCE):
                printer.print(portion[start : start + AT_ONCE])
    printer.end()


def _texts(file: Path) -> list[str]:
    """Returns the lines of a file."""
    with opened(file) as stream:
        return [line for portion in lines(stream) for line in portion]


def _table(
    file: Path, model: "TrainedModel", places: dict[str, list[str]], *, only: str | None, header: bool
) -> Table:
    """Returns the rows of a table with the columns that the model's questions have, or with one of them."""
    task_type = model.experiment.task_type
    parts = {part.name for part in task_type.inputs if part.optional}
    inputs = [column for column in task_type.columns if column.role == "input"]
    if only is not None:
        return Table(file, [only or inputs[0].name], places=places, header=header)
    optional = [column.name for column in inputs if column.optional or column.name in parts]
    needed = [column.name for column in inputs if column.name not in optional]
    return Table(file, needed, optional, places, header=header)


def _write(
    model: "TrainedModel", questions: Lines | Table, answer: Answer, part: Part, *, resume: bool
) -> None:
    """Writes the answers to all rows of a file that are not written yet.

    Raises:
        DataError: A row had no answer; the file is complete.
    """
    from plugformer.distributed import Processes
    from plugformer.interfaces import TaskType

    asked, task_type = part.requested, model.experiment.task_type
    by_vector = asked["--vectors"] or asked["--among file"]
    spans = type(task_type).spans is not TaskType.spans and not by_vector
    columns = ["prediction"] + ["probability"] * model.model.head.probabilities
    columns += ["alternatives"] * (asked["--n-best"] > 1) + ["probabilities"] * asked["--probabilities"]
    columns += ["spans"] * spans + ["error"]
    answers = Columns(columns, task_type, asked["--threshold"])
    names = answers.names(questions.columns)
    form = answer_file(part.out, names, asked["--n-best"], scores=asked["--scores"])
    processes = Processes.join()
    if not processes.on_main(lambda: part.begin(resume=resume)):
        typer.echo(f"{part.out} is complete", err=True)
        part.refuse_errors()
        return
    part.rows = done = processes.on_main(lambda: part.rows)
    say = partial(typer.echo, err=True) if processes.main else str
    if resume:
        say(f"{done:,} rows are complete" if done else "nothing to continue: begins with the first row")
    started = time.monotonic()
    with progress(questions.count, done, shown=processes.main) as moved:
        predict_file(questions, answer, answers, form, part, processes, moved)
    if not processes.main:
        return
    speed = (part.rows - done) / (time.monotonic() - started)
    say(f"{part.out}: {part.rows:,} rows, {speed:,.0f} rows/s")
    for name, meaning in (
        ("truncated", "too long: only their beginning was read"),
        ("unknown", "unknown in part"),
    ):
        if part.counts[name]:
            say(f"{part.counts[name]:,} rows are {meaning}")
    part.refuse_errors()
