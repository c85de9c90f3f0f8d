"""Text, tables and scores on standard output: fitted to a terminal, complete in a pipe."""

import json
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from plugformer.evaluation import Report, Score
    from plugformer.runs import TrainedModel


def printable(text: str) -> str:
    r"""Returns a text with its control characters, except tab and line feed, written as `\x1b`."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)


def terminal_width() -> int | None:
    """Returns the columns of the terminal, or None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def display_width(text: str) -> int:
    """Returns the columns that a text takes on a terminal: two for each Chinese character, for example."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 13 ms, which most calls of `list` do without

    return cell_len(text)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Prints rows in aligned columns, some to the right; on a terminal lines that are too long are cut."""
    table = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(display_width(row[column]) for row in table) for column in range(len(header))]
    limit = terminal_width()
    for number, row in enumerate(table):
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            spaces = " " * (width - display_width(cell))
            cells.append(spaces + cell if name in right else cell + spaces)
        line = "  ".join(cells).rstrip()
        while limit and display_width(line) > limit:
            line = f"{line[:-2]}…"
        typer.echo(typer.style(line, bold=True) if number == 0 and limit else line)


def print_text(text: str, indent: int = 0) -> None:
    """Prints a text line by line; on a terminal long lines are wrapped."""
    width, margin = terminal_width(), " " * indent
    for line in printable(text).splitlines():
        for part in [line] if width is None else textwrap.wrap(line, max(width - indent, 20)) or [""]:
            typer.echo(margin + part)


def print_json(value: Any, indent: int | None = None) -> None:
    """Prints a value as JSON, on one line unless its parts are indented."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=indent))


def print_report(report: "Report", *, as_json: bool) -> None:
    """Prints the metrics of an evaluation with their intervals, those of other test splits below."""
    if as_json:
        print_json(report.as_json())
        return
    reports = [report, *report.others]
    scores = [(split, name, score) for split in reports for name, score in _scores(split)]
    if not scores:
        typer.echo("no metrics: give some in the task's evaluation.metrics")
        return
    figures = [(split.split, name, *_figures(score, split.examples)) for split, name, score in scores]
    print_table(("split", "metric", "value", "95 % interval"), figures, right=("value",))
    signed = [(name.partition(",")[0], score) for _, name, score in scores if "signature" in score]
    signatures = {f"{name}  {score['signature']}" for name, score in signed}
    if signatures:
        typer.echo("\n" + "\n".join(sorted(signatures)))
    for split, name, score in scores:
        if table := score.get("table"):
            typer.echo(printable(f"\n{name} on {split.split}: {table['title']}"))
            columns = table["columns"]
            rows = [(row, *map(str, numbers)) for row, numbers in table["rows"].items()]
            print_table(("", *columns), rows, right=columns)


def _scores(report: "Report") -> "Iterator[tuple[str, Score]]":
    """Yields a report's scores with their names."""
    yield from report.metrics.items()
    for name, score in report.unconstrained.items():
        yield f"{name}, without constraints", score
    for baseline, found in report.baselines.items():
        for name, score in found.metrics.items():
            yield f"{name}, baseline {baseline}", score


def _figures(score: "Score", examples: int) -> tuple[str, str]:
    """Returns value and interval; two decimals are enough for what is measured in percent or larger."""
    digits = 2 if score["high"] > 10 else 4
    value, low, high = (f"{score[key]:.{digits}f}" for key in ("value", "low", "high"))
    if score["low"] == score["high"]:
        return value, "unknown: one example" if examples == 1 else "unknown: all resamples score the same"
    return value, f"{low} to {high}"


def print_baselines(report: "Report") -> None:
    """Prints which baselines a model does not beat, and which have learned from some examples only."""
    for split in (report, *report.others):
        for name, baseline in split.baselines.items():
            if (metric := baseline.unbeaten) != "":
                ours, simple = (scores[metric]["value"] for scores in (split.metrics, baseline.metrics))
                words = f"{metric} {ours:.4f} on {split.split}, that of the baseline {simple:.4f}"
                typer.secho(f"THE MODEL DOES NOT BEAT {name}: {words}", fg="red", bold=True)
    for name, baseline in report.baselines.items():
        if baseline.available is None or 0 < baseline.examples < baseline.available:
            of = "" if baseline.available is None else f" of {baseline.available:,}"
            typer.echo(f"{name} has learned from {baseline.examples:,}{of} training examples")


def print_self_check(report: "Report") -> None:
    """Prints whether the ways to compute a model's answers agree, and if not, what is probably wrong."""
    check = report.self_check
    if check is None:
        return
    if check.passed:
        typer.echo(f"self-check passed: {check}")
        return
    typer.secho("SELF-CHECK FAILED: the model's answers depend on how they are computed", fg="red", bold=True)
    for comparison in check.failed:
        typer.secho(printable(f"  {comparison}"), fg="red")
        if comparison.example:
            typer.echo(printable(f"    input   {comparison.example}"))
        typer.echo(f"    likely  {comparison.likely}")


def print_next_steps(trained: "TrainedModel") -> None:
    """Prints the path of a run and the commands that use it."""
    from plugformer.interfaces import TaskType

    run, arguments = shlex.quote(str(trained.directory)), trained.registry.arguments
    task_type = trained.experiment.task_type
    inputs = [column for column in task_type.columns if column.role == "input" and not column.optional]
    # A tab that is pasted into a terminal completes words; a shell turns \t in $'...' into one.
    texts = r"\t".join(["some text"] * len(inputs))
    text = f"$'{texts}'" if len(inputs) > 1 else '"some text"'
    if type(task_type).rank is not TaskType.rank:  # it finds texts among others, and none are given
        text = f"--vectors {text}"
    typer.echo(f"\nrun   {run}")
    typer.echo(f"next  plugformer predict {run} {text}{arguments}")
    typer.echo(f"      plugformer evaluate {run} --split validation{arguments}")
