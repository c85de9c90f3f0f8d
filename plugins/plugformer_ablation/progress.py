"""Progress over all cells: a bar and what runs where there is a terminal, plain lines where there is none."""

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from plugformer_ablation.executor import Event

QUIET = 60.0
"""Seconds without a finished cell after which a line without a terminal says how far the running ones are."""


class StudyProgress(Progress):
    """Shows which cells are done and which run, and the time left.

    Args:
        console: Where to; its being a terminal decides between a bar and lines.
        total: All cells.
        finished: Those that need not be run.
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
        self._total = total
        self._finished = finished
        self._ended = 0
        self._parts: dict[str, float] = {}
        self._began = self._said = time.monotonic()
        self._all = self.add_task("cells", total=total, completed=finished, left="")
        self._bars: dict[str, TaskID] = {}

    def show(self, event: Event) -> None:
        """Shows what has happened."""
        if event is not None:
            name, message = str(event[0]), event[1]
            if message.step is not None:
                self._parts[name] = message.step / message.steps
                if name not in self._bars:
                    self._bars[name] = self.add_task(f"  {name}", total=message.steps, left="")
                self.update(self._bars[name], completed=message.step)
            elif message.ended:
                self._parts.pop(name, None)
                self._ended += 1
                if name in self._bars:
                    self.remove_task(self._bars.pop(name))
                place = f"[{self._finished + self._ended}/{self._total}]"
                how = "done" if message.failure is None else f"failed: {message.failure}"
                self._say(f"{place} {name}: {how}")
        self.update(self._all, completed=self._finished + self._ended, left=self._left())
        if not self.console.is_terminal and time.monotonic() - self._said > QUIET:
            running = ", ".join(f"{cell} {part:.0%}" for cell, part in self._parts.items())
            done = f"{self._finished + self._ended} of {self._total} cells are done"  # Ray's tell no more
            self._say(f"running: {running}" if running else done)

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        left = "" if self.console.is_terminal else self._left()
        self.console.print(f"{text}{f'; {left}' if left else ''}", markup=False, highlight=False)

    def _left(self) -> str:
        """Returns the time left, from the cells and parts of cells that have been done so far."""
        done = self._ended + sum(self._parts.values())
        remaining = self._total - self._finished - done
        if done == 0 or remaining <= 0:
            return ""
        seconds = remaining * (time.monotonic() - self._began) / done
        return f"about {timedelta(seconds=round(seconds))} left"
