"""Trains with `training.compile` in a process of its own, where no other test has compiled anything.

Usage: compiled.py FOLDER SETTING...

Writes JSON: the number of compiled graphs and of graph breaks after each update, and messages.
"""

import json
import sys
from functools import partial
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from plugformer.hooks import hookimpl
from plugformer.training.train import train


class Counting:
    """Notes what has been compiled."""

    def __init__(self):
        self.graphs = []

    @hookimpl
    def step_ended(self):
        self.graphs.append([counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())])


if __name__ == "__main__":
    torch.compile = partial(torch.compile, backend="aot_eager")  # traces as the default does, and is quick
    observer, notices = Counting(), []
    train("dates", overrides=sys.argv[2:], out=Path(sys.argv[1]), callbacks=[observer], notify=notices.append)
    sys.stdout.write(json.dumps({"graphs": observer.graphs, "notices": notices}))
