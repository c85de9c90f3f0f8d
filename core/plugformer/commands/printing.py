"""Text, tables and scores on standard output, fit for a terminal, and left as they are in a pipe."""

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plugformer.terminal import aligned, clipped, display_width, printable

if TYPE_CHECKING:
    from plugformer.evaluation.report import Report, Score, SelfCheck
    from plugformer.runs.loading import TrainedModel


def terminal_width() -> int | None:
    """Returns the columns of the terminal, or None where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Prints rows in aligned columns; on a terminal the last column is cut where the line ends.

    Args:
        header: The columns' names.
        rows: Their values; without line breaks.
        right: Columns that are aligned to the right.
    """
    table = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(display_width(row[column]) for row in table) for column in range(len(header))]
    limit = terminal_width()
    for number, row in enumerate(table):
        cells = [
            aligned(cell, width, right=name in right)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        line = clipped("  ".join(cells).rstrip(), limit)
        typer.echo(typer.style(line, bold=True) if number == 0 and limit else line)


def print_text(text: str, indent: int = 0) -> None:
    """Prints a text line by line; on a terminal long lines are wrapped."""
    width, margin = terminal_width(), " " * indent
    for line in printable(text).splitlines():
        for part in [line] if width is None else textwrap.wrap(line, max(width - indent, 20)):
            typer.echo(margin + part)


def print_device(model: "TrainedModel") -> None:
    """Prints on standard error where a model computes, unless it is the CPU."""
    from plugformer.device import described

    if model.device.type != "cpu":
        typer.echo(f"computing on {described(model.device)}", err=True)


def print_report(report: "Report", *, as_json: bool) -> None:
    """Prints the metrics of a report and of those beside it."""
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
        return
    found = [(each, *score) for each in (report, *report.others) for score in _scores(each)]
    if not found:
        typer.echo("no metrics: give some in the task's evaluation.metrics")
        return
    rows = [(each.split, metric, *_figures(score, each.examples)) for each, metric, score in found]
    print_table(("split", "metric", "value", "95 % interval"), rows, right=("value",))
    signed = {(metric, score["signature"]) for _, metric, score in found if "signature" in score}
    for number, (metric, signature) in enumerate(sorted(signed)):
        line = typer.style(printable(f"{metric}  {signature}"), dim=terminal_width() is not None)
        typer.echo(line if number else f"\n{line}")
    for each, metric, score in found:
        if table := score.get("table"):
            typer.echo(printable(f"\n{metric} on {each.split}: {table['title']}"))
            _print_numbers(table)


def _scores(report: "Report") -> "Iterator[tuple[str, Score]]":
    """Yields a report's scores with what to call them."""
    yield from report.metrics.items()
    for name, score in report.unconstrained.items():
        yield f"{name}, without constraints", score


def print_self_check(check: "SelfCheck", run: Path, arguments: str) -> None:
    """Prints whether the ways to compute a model's answers agree, and if not, what is probably wrong.

    Args:
        check: The result.
        run: The run's directory.
        arguments: What commands need beside it, a space first.
    """
    if check.passed:
        typer.echo(f"self-check passed: {check}")
        return
    typer.secho(
        "SELF-CHECK FAILED: answers of this model depend on how they are computed", fg="red", bold=True
    )
    for each in check.failed:
        typer.secho(printable(f"  {each}"), fg="red")
        if each.example:
            typer.echo(printable(f"    input   {each.example}"))
        typer.echo(f"    likely  {each.likely}")
    typer.echo(f"  again   plugformer evaluate {shlex.quote(str(run))} --self-check{arguments}")


def _figures(score: "Score", examples: int) -> tuple[str, str]:
    """Returns value and interval; two decimals are enough for what is measured in percent or larger."""
    value, low, high = (
        f"{score[key]:.{2 if score['high'] > 10 else 4}f}" for key in ("value", "low", "high")
    )
    if score["low"] == score["high"]:
        return value, "unknown: one example" if examples == 1 else "unknown: all resamples score the same"
    return value, f"{low} to {high}"


def _print_numbers(table: Mapping[str, Any]) -> None:
    """Prints a table; columns whose names are too wide together for the terminal are numbered."""
    columns, rows = table["columns"], table["rows"]
    width = terminal_width()
    needed = max(map(display_width, rows), default=0) + sum(display_width(name) + 2 for name in columns)
    if width is not None and needed > width:
        columns = [str(number) for number in range(1, len(columns) + 1)]
        rows = {f"{number} {name}": row for number, (name, row) in enumerate(rows.items(), start=1)}
    print_table(("", *columns), [(name, *map(str, row)) for name, row in rows.items()], right=columns)


def print_next_steps(run: Path, question: str, arguments: str) -> None:
    """Prints where a run lies and what can be done with it.

    Args:
        run: Its directory.
        question: What its model can be asked.
        arguments: What commands need beside it, a space first.
    """
    name = shlex.quote(str(run))
    # A tab that is pasted into a terminal completes words; a shell makes one of this.
    text = f'"{question}"' if "\t" not in question else "$'{}'".format(question.replace("\t", r"\t"))
    typer.echo(f"\nrun   {name}")
    typer.echo(f"next  plugformer predict {name} {text}{arguments}")
    typer.echo(f"      plugformer evaluate {name} --split validation{arguments}")
