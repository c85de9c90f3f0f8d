"""`plugformer predict`: a trained model's answers to texts."""

import hashlib
import io
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from plugformer.errors import ConfigurationError, DataError
from plugformer_cli.answer_files import AnswerFile, UnfinishedAnswers, check_form
from plugformer_cli.answering import Answer, Records, by_vectors, failed, print_answers, records
from plugformer_cli.options import AsJson, Device, EngineName, LocalManifest, RunPath, RunSettings, load_run
from plugformer_cli.questions import (
    TABLES,
    Question,
    arriving,
    columns_and_count,
    ending,
    inputs_of,
    lines_of,
    places_of,
    portions,
    rows_of,
    text_question,
)

if TYPE_CHECKING:
    from plugformer.distributed import Processes

PORTION = 2000
"""Questions that are answered and saved together. What is written does not depend on it."""

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
        bool, typer.Option("--resume", help="Continue an interrupted --out after its last complete row.")
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
        str, typer.Option("--input", metavar="NAME", help="With --vectors or --among: which input texts are.")
    ] = "",
    settings: RunSettings = None,
    device: Device = None,
    engine: EngineName = None,
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
    continues after its last complete row, in the form FILE.part.

    A model with a vector for each text finds the nearest of those in a file (--among), or prints vectors
    (--vectors): of the first input of the task type, or of the one that --input names.

    A text that is too long (unless the task truncates) or not UTF-8 gets an empty line, with --json an
    "output" of null and an "error". So does one whose probability is below --threshold. Standard error says
    why, and what was truncated or unknown. The exit status is 2 if there was an error.
    """
    by_vector = vectors or among is not None
    is_table = file is not None and not json_lines and ending(file) in TABLES
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # processes, by a launcher
    _refuse_combinations(ctx.params, is_table=is_table, several=several)
    if out is not None:
        check_form("--out", out, (".txt", *TABLES))
    if among is not None and ending(among) in TABLES:
        raise ConfigurationError(f"--among {among} is a table; write its texts into a .txt, one on each line")
    places = places_of(column or [])
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # as the texts, whatever the system's is
    from plugformer.distributed import Processes
    from plugformer.interfaces import TaskType
    from plugformer_blocks import check_file

    for given in filter(None, (file, among)):
        check_file(given)
    processes = Processes.join()
    model = load_run(ctx, run, settings, processes.device if several else device, registry, engine)
    answer: Answer = partial(model.predict_each, n_best=n_best, probabilities=probabilities)
    if by_vector:
        candidates = None
        if among is not None:
            candidates = [
                *dict.fromkeys(text for line in lines_of(among) if (text := str(line.asked)).strip())
            ]
            if not candidates:
                raise DataError(f"--among {among} has no text; write one on each line")
            n_best = min(n_best, len(candidates))
        answer = by_vectors(model, candidates, name, n_best)
    answers = partial(records, answer, threshold=threshold)
    question = partial(text_question, is_json=json_lines)
    header: list[str] = []
    read: Callable[[], Iterator[Question]] = partial(map, question, texts or ())
    if file is not None and is_table:
        needed, optional = inputs_of(model.experiment.task_type, only=name if by_vector else None)
        read = partial(rows_of, file, needed, optional, places, header=not no_header, names=header)
    elif file is not None:
        read = partial(lines_of, file, is_json=json_lines)
    if out is None:
        given_all = texts or file is not None
        asked = portions(read(), PORTION) if given_all else arriving(sys.stdin.buffer, question, PORTION)
        print_answers(asked, answers, n_best, scores=scores, as_json=as_json)
        return
    task_type = model.experiment.task_type
    columns = {
        "prediction": True,
        "probability": model.model.head.probabilities,
        "alternatives": n_best > 1,
        "probabilities": probabilities,
        "spans": not by_vector and type(task_type).spans is not TaskType.spans,
        "error": True,
    }
    names = [name for name, present in columns.items() if present]
    form = AnswerFile(out, names, task_type, n_best, scores, cast("Path", file))
    requested = {option: value for option, value in ctx.params.items() if option not in _NOT_REQUESTED}
    files = {"--file": file, "--among": among, "model": model.place / "model.safetensors"}
    hashes = {name: each and _hash_of(each) for name, each in files.items()}
    unfinished = UnfinishedAnswers(out, requested | hashes)
    _write(form, unfinished, read, header, answers, processes, resume=resume)


def _refuse_combinations(given: Mapping[str, Any], *, is_table: bool, several: bool) -> None:
    """Raises ConfigurationError if options exclude each other, or lack what they need."""
    words = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    words |= {"TEXT": given["texts"], "--json": given["as_json"]}
    for one, other, advice in (
        ("--among", "--vectors", "give one"),
        ("--json-lines", "--among", "leave one out"),
        ("--json-lines", "--vectors", "leave one out"),
        ("TEXT", "--file", "give one"),
        ("--out", "--json", "an --out that ends in .jsonl has JSON"),
    ):
        if words[one] and words[other]:
            raise ConfigurationError(f"{one} and {other} exclude each other: {advice}")
    into_file = given["out"] is not None
    if into_file and not given["file"]:
        raise ConfigurationError("--out needs a --file: write the texts into one")
    if given["resume"] and not into_file:
        raise ConfigurationError("--resume continues a file of answers: give --file and --out as before")
    if (given["column"] or given["no_header"]) and not is_table:
        raise ConfigurationError(f"--column and --no-header need a --file that ends in {' or '.join(TABLES)}")
    if given["probabilities"] and not (into_file or given["as_json"]):
        raise ConfigurationError("--probabilities needs --out, or --json")
    if given["name"] and not (given["vectors"] or given["among"]):
        raise ConfigurationError("--input says what vectors are of: give --vectors or --among")
    if several and not into_file:
        raise ConfigurationError("several processes share the rows of a file: give --file and --out")


_NOT_REQUESTED = {"run", "texts", "file", "among", "out", "resume", "device", "as_json", "registry"}
"""Parameters on which answers do not depend, or whose files have hashes."""


def _hash_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write(
    form: AnswerFile,
    unfinished: UnfinishedAnswers,
    read: Callable[[], Iterator[Question]],
    header: Sequence[str],
    answers: Records,
    processes: "Processes",
    *,
    resume: bool,
) -> None:
    """Writes the answers to all rows of a file, of which some may be answered already.

    Raises:
        DataError: A row had no answer; the file is complete.
    """
    from plugformer_cli.progress import row_progress

    say = partial(typer.echo, err=True) if processes.main else str
    columns, count = processes.on_main(lambda: columns_and_count(read()))
    if processes.on_main(lambda: unfinished.begin(resume=resume)):
        done = unfinished.rows = processes.on_main(lambda: unfinished.rows)
        if resume:
            say(f"{done:,} rows are complete" if done else "nothing to continue: begins with the first row")
        started = time.monotonic()
        with row_progress(count, done, shown=processes.main) as moved:
            _save(islice(read(), done, None), answers, unfinished, processes, moved)
            pairs = zip(read(), unfinished.records(), strict=True)
            processes.on_main(lambda: form.write(columns or header, pairs))
        say(f"{form.out}: {count:,} rows, {(count - done) / (time.monotonic() - started):,.0f} rows/s")
    else:
        say(f"{form.out} is complete; delete it to answer anew")
    processes.on_main(lambda: _conclude(unfinished, form.out))


def _save(
    remaining: Iterator[Question],
    answers: Records,
    unfinished: UnfinishedAnswers,
    processes: "Processes",
    moved: Callable[[int], None],
) -> None:
    """Answers rows and saves the answers in their order; each process answers every n-th portion."""
    first = unfinished.rows
    while True:
        with processes.raise_everywhere():
            taken = [list(islice(remaining, PORTION)) for _ in range(processes.count)]
            found = answers(taken[processes.index], first=first + processes.index * PORTION)
        processes.on_main(partial(unfinished.save, [*chain(*processes.gather(found))]))
        first += sum(map(len, taken))
        moved(first)
        if len(taken[-1]) < PORTION:
            return


def _conclude(unfinished: UnfinishedAnswers, out: Path) -> None:
    """Says what was wrong with rows of a complete file.

    Raises:
        DataError: Rows have no answer. The records stay, so that the command can say so again.
    """
    counts = Counter(name for found in unfinished.records() for name in (*found, *["failed"] * failed(found)))
    for name, meaning in (
        ("truncated", "too long: only their beginning was read"),
        ("unknown", "unknown in part"),
    ):
        if counts[name]:
            typer.echo(f"{counts[name]:,} rows are {meaning}", err=True)
    if counts["failed"]:
        raise DataError(f"{counts['failed']:,} of {counts['output']:,} rows had no answer; {out} says why")
    unfinished.file.unlink(missing_ok=True)
