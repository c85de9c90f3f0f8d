"""Progress on the screen: a bar on a terminal and in Jupyter, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from plugformer.errors import InterruptedRunError
from plugformer.hooks import EvaluationResult, Run, SampleOutput, Update, hookimpl
from plugformer_cli.printing import printable


def is_live(console: Console) -> bool:
    """Returns whether a bar can be redrawn: on a terminal that is not dumb, in Jupyter with ipywidgets."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal


class ProgressDisplay:
    """Shows loss, tokens per second and time left, and what the model answers at each evaluation."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn(
                "loss {task.fields[loss]:.3f}{task.fields[skipped]}  {task.fields[speed]:,.0f} tokens/s"
            ),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not is_live(console),
        )
        self._tokens = 0.0
        self._seconds = 0.0
        self._updates = 0.0
        self._loss = float("nan")
        # Since the last line: losses with their numbers of targets, and targets whose loss is not known yet.
        self._losses: list[tuple[float, int]] = []
        self._targets = 0

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Starts the bar."""
        self._task = self._bar.add_task(
            "training", total=run.steps, epoch=1, loss=self._loss, skipped="", speed=0.0
        )
        self._bar.start()

    @hookimpl
    def step_ended(self, run: Run, update: Update) -> None:
        """Moves the bar, or prints a line every `training.log_every` updates, with their mean loss."""
        # Sums that fade over about a hundred updates: recent enough to follow a change, yet steady.
        self._tokens = self._tokens * 0.99 + update.tokens
        self._seconds = self._seconds * 0.99 + update.seconds
        self._updates = self._updates * 0.99 + 1
        speed = self._tokens / self._seconds
        self._loss = self._loss if update.loss is None else update.loss
        skipped = f"  {update.skipped} skipped" if update.skipped else ""
        if not self._bar.disable:
            fields: dict[str, Any] = {"epoch": update.epoch, "loss": self._loss, "skipped": skipped}
            self._bar.update(self._task, completed=update.step, speed=speed, **fields)
            return
        if not update.left_out:
            self._targets += update.targets
            if update.loss is not None:
                self._losses.append((update.loss, self._targets))
                self._targets = 0
        if update.step % run.task.training.log_every == 0 or update.step == run.steps:
            seconds = (run.steps - update.step) * self._seconds / self._updates
            if targets := sum(number for _, number in self._losses):
                self._loss = sum(loss * number for loss, number in self._losses) / targets
            self._losses.clear()
            self._console.print(
                f"step {update.step}/{run.steps}  epoch {update.epoch}  loss {self._loss:.4f}{skipped}  "
                f"{speed:,.0f} tokens/s  {timedelta(seconds=round(seconds))} left",
                highlight=False,
            )

    @hookimpl
    def evaluation_ended(self, evaluation: EvaluationResult) -> None:
        """Prints a few answers, and the figures of the validation split."""
        self._show(evaluation.samples)
        self._console.print(
            f"[bold]step {evaluation.step}[/]  {_figures(evaluation)}"
            f"{'  [green](best so far)[/]' if evaluation.best else ''}",
            highlight=False,
        )

    @hookimpl
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """Prints the figures of the average, and whether it is better than the single best."""
        verdict = "[green]better[/]" if evaluation.best else "[yellow]not better[/]"
        self._console.print(
            f"[bold]average of steps {', '.join(map(str, steps))}[/]  {_figures(evaluation)}  "
            f"({verdict} than the single best: {run.task.monitor} {single_best:.4f})",
            highlight=False,
        )

    @hookimpl
    def run_ended(self) -> None:
        """Takes the bar away."""
        self._bar.stop()

    run_failed = run_ended

    @hookimpl
    def samples_shown(self, samples: list[SampleOutput]) -> None:
        """Prints the answers of the untrained model."""
        if samples:
            self._console.print("before training:", highlight=False)
        self._show(samples)

    def _show(self, samples: list[SampleOutput]) -> None:
        for sample in samples:
            right = sample.output == sample.reference
            mark = "[green]✓[/]" if right else "[red]✗[/]"
            expected = "" if right else f"  (expected {_shown(sample.reference)})"
            self._console.print(
                f"  {mark} {_shown(sample.source)}  →  {_shown(sample.output)}{expected}", highlight=False
            )


def _figures(evaluation: EvaluationResult) -> str:
    accuracy = evaluation.token_accuracy
    figures = [
        f"validation loss {evaluation.loss:.4f}",
        *([] if accuracy is None else [f"token accuracy {accuracy:.2%}"]),
        *(f"{name} {value:.4f}" for name, value in evaluation.metrics.items() if name != "token_accuracy"),
    ]
    return "  ".join(figures)


def _shown(text: str) -> str:
    """Returns a text of the data, which means neither markup nor commands to the terminal."""
    return escape(printable(text))


@contextmanager
def row_progress(total: int, done: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Shows rows and the time left, on a terminal; yields what receives complete rows.

    Ctrl-C becomes an error that says how to continue.

    Args:
        total: Number of rows.
        done: Number of rows that are complete already.
        shown: Whether this process shows anything.
    """
    console = Console(stderr=True)
    bar = Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=600,
        disable=not (shown and is_live(console)),
    )
    task = bar.add_task("rows", total=total, completed=done)
    try:
        with bar:
            yield lambda rows: bar.update(task, completed=rows)
    except KeyboardInterrupt:
        complete = bar.tasks[task].completed
        message = f"Interrupted. {complete:,} rows are complete: continue with --resume"
        raise InterruptedRunError(message if shown else "") from None
