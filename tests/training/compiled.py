"""Trains with `training.compile` in a process of its own, where no other test has compiled anything.

Usage: compiled.py FOLDER BACKEND INTERRUPTED SETTING...

Writes JSON: the number of compiled graphs and of graph breaks after each update, and messages.
"""

import json
import signal
import sys
from functools import partial
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from plugformer.errors import InterruptedRunError
from plugformer.hooks import hookimpl
from plugformer.training.train import resume, train


class Counting:
    """Notes what has been compiled, and stops after some update."""

    def __init__(self, interrupted):
        self.interrupted, self.graphs = interrupted, []

    @hookimpl
    def step_ended(self, update):
        self.graphs.append([counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())])
        if update.step == self.interrupted:
            signal.raise_signal(signal.SIGINT)


def main(folder, backend, interrupted, *settings):
    torch.compile = partial(torch.compile, backend=backend)
    observer, notices = Counting(int(interrupted)), []
    try:
        if folder.exists():
            resume(folder, observers=[observer], notify=notices.append)
        else:
            train("dates", overrides=settings, out=folder, observers=[observer], notify=notices.append)
    except InterruptedRunError:
        pass
    sys.stdout.write(json.dumps({"graphs": observer.graphs, "notices": notices}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
