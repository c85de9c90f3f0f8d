"""Answers to the rows of a file, portion by portion, which an interrupted command can continue."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from plugformer.errors import InterruptedRunError, PlugformerError
from plugformer_cli.answer_columns import Columns
from plugformer_cli.answer_files import AnswerFile
from plugformer_cli.answering import Answer, answered
from plugformer_cli.part import Part
from plugformer_cli.questions import Question

if TYPE_CHECKING:
    from plugformer.distributed import Processes

PORTION = 2000
"""Rows that are answered and saved together. What is written does not depend on the number of processes."""


def predict_file(
    questions: Iterable[Question],
    answer: Answer,
    columns: Columns,
    form: AnswerFile,
    part: Part,
    processes: "Processes",
    moved: Callable[[int], None] = lambda _: None,
) -> None:
    """Answers the rows of a file behind those that are complete, and saves the answers in their order.

    Each process answers every n-th portion; the main process writes.

    Args:
        questions: All rows of the file.
        answer: Of the model.
        columns: What to write of a row.
        form: How to write it.
        part: Where to write it; `begin` has been called.
        processes: Those that share the rows.
        moved: Receives the number of complete rows after each portion.
    """
    remaining = islice(iter(questions), part.rows, None)
    first = part.rows
    while True:
        with processes.raise_everywhere():
            portions = [list(islice(remaining, PORTION)) for _ in range(processes.count)]
            mine = first + processes.index * PORTION
            answers = _portion(portions[processes.index], answer, columns, form, mine)
        saved = processes.gather(answers)

        def save(saved: Sequence[tuple[bytes, int, dict[str, int]]] = saved) -> None:
            for data, rows, counts in saved:
                if data:
                    part.save(data, rows, counts)

        processes.on_main(save)
        first += sum(map(len, portions))
        moved(first)
        if len(portions[-1]) < PORTION:
            processes.on_main(lambda: part.finish(form))
            return


def _portion(
    portion: Sequence[Question], answer: Answer, columns: Columns, form: AnswerFile, first: int
) -> tuple[bytes, int, dict[str, int]]:
    """Returns the bytes of some rows, their number, and how many of them have which fault."""
    if not portion and first:
        return b"", 0, {}
    answers = answered(answer, [question.asked for question in portion], first=first)
    rows = [columns.row(question, found) for question, found in zip(portion, answers, strict=True)]
    sound = [found for found in answers if not isinstance(found, PlugformerError)]
    counts = {
        "errors": len(answers) - len(sound),
        "truncated": sum(found.truncated for found in sound),
        "unknown": sum(bool(found.unknown) for found in sound),
    }
    return (b"" if first else form.head()) + form.portion(rows), len(rows), counts


@contextmanager
def progress(total: Callable[[], int | None], done: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Shows rows, rows per second and the time left, on a terminal; yields what receives complete rows.

    Ctrl-C becomes an error that says how to continue.

    Args:
        total: Counts the rows of the file, if they can be counted.
        done: Number of rows that are complete already.
        shown: Whether this process shows anything.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from plugformer_cli.progress import is_live

    console = Console(stderr=True)
    bar = Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("rows  {task.fields[speed]:,.0f} rows/s"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=600,
        disable=not (shown and is_live(console)),
    )
    started, complete = time.monotonic(), done
    task = bar.add_task("rows", total=None if bar.disable else total(), completed=done, speed=0.0)

    def moved(rows: int) -> None:
        nonlocal complete
        complete = rows
        bar.update(task, completed=rows, speed=(rows - done) / (time.monotonic() - started))

    try:
        with bar:
            yield moved
    except KeyboardInterrupt:
        message = f"Interrupted. {complete:,} rows are complete: continue with --resume"
        raise InterruptedRunError(message if shown else "") from None
