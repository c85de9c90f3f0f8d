"""The progress of a study: bars on a terminal, otherwise plain lines."""

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from plugformer_ablation.executors import Event

QUIET = 60.0
"""Seconds without a finished cell after which a line reports the running ones, if there is no terminal."""


class StudyProgress(Progress):
    """Shows finished and running cells, and the time left.

    Args:
        console: Where to show it.
        total: Number of all cells.
        finished: Number of cells that have a result already.
    """

    def __init__(self, console: Console, total: int, finished: int) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),  # names of arms may have brackets
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._total, self._done, self._ended = total, finished, 0
        self._running: dict[str, float] = {}
        self._start = self._last_line = time.monotonic()
        self._all = self.add_task("cells", total=total, completed=finished, left="")
        self._bars: dict[str, TaskID] = {}

    def show(self, event: Event) -> None:
        """Shows an event."""
        if event is not None:
            name, message = str(event[0]), event[1]
            if message.step is not None:
                self._running[name] = message.step / message.steps
                if name not in self._bars:
                    self._bars[name] = self.add_task(f"  {name}", total=message.steps, left="")
                self.update(self._bars[name], completed=message.step)
            elif message.ended:
                self._running.pop(name, None)
                self._ended += 1
                self._done += 1
                if name in self._bars:
                    self.remove_task(self._bars.pop(name))
                outcome = "done" if message.failure is None else f"failed: {message.failure}"
                self._print(f"[{self._done}/{self._total}] {name}: {outcome}")
        self.update(self._all, completed=self._done, left=self._time_left())
        if not self.console.is_terminal and time.monotonic() - self._last_line > QUIET:
            running = ", ".join(f"{cell} {part:.0%}" for cell, part in self._running.items())
            done = (
                f"{self._done} of {self._total} cells are done"  # cells on a Ray cluster report no progress
            )
            self._print(f"running: {running}" if running else done)

    def _print(self, text: str) -> None:
        self._last_line = time.monotonic()
        left = "" if self.console.is_terminal else self._time_left()
        self.console.print(f"{text}{f'; {left}' if left else ''}", markup=False, highlight=False)

    def _time_left(self) -> str:
        """Returns the time left, estimated from the cells and parts of cells that have been done so far."""
        done = self._ended + sum(self._running.values())
        remaining = self._total - (self._done - self._ended) - done
        if done == 0 or remaining <= 0:
            return ""
        seconds = remaining * (time.monotonic() - self._start) / done
        return f"about {timedelta(seconds=round(seconds))} left"
