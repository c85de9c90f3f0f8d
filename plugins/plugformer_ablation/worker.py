"""A worker: one of any number of processes that train the cells of a study in a folder that they share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from rich.console import Console

from plugformer_ablation.cells import Cell
from plugformer_ablation.executors import InlineExecutor
from plugformer_ablation.training import work_on

AGAIN = 75
"""Exit status of a worker that was asked to stop: EX_TEMPFAIL of sysexits.h, start it again."""


class Worker(InlineExecutor):
    """Trains cells one after the other in this process, those that no other process has."""

    shares = True

    def __init__(self) -> None:
        super().__init__()
        self.threads = torch.get_num_threads()

    def start(self, cell: Cell) -> None:
        """Trains a cell, unless another process has it."""
        message = work_on(cell, self.threads, lambda *_: None, final=True)
        if message.stopped:
            self.stop()
        self.running[cell.name] = cell, message


@contextmanager
def own_console() -> Iterator[Console]:
    """Yields a console for plain lines that stays where it is while output goes to the log of a cell."""
    with os.fdopen(os.dup(2), "w", buffering=1) as file:
        yield Console(file=file, soft_wrap=True, force_terminal=False)
