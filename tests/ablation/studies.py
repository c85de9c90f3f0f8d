"""Tiny studies, and an executor that runs their cells in this process, as it is told to."""

from dataclasses import replace

from rich.console import Console

from plugformer.configuration import read_dictionary
from plugformer_ablation.design.reading import read_study
from plugformer_ablation.running.executors import InlineExecutor
from plugformer_ablation.running.running import run_study
from plugformer_ablation.running.training import Message

SWAP = "model.attention=[mha, {name: gqa, kv_heads: 1}]"
SETTINGS = (
    "data.size=60",
    "model.width=16",
    "model.heads=2",
    "model.layers=1",
    "model.ffn_width=32",
    "model.max_length=40",
    "training.schedule=constant",
    "training.steps=6",
    "training.batch_size=8",
    "training.log_every=2",
    "training.evaluate_every=3",
    "training.monitor=loss",
    "decoding.max_length=4",
    "evaluation.samples=0",
)


def options(*changed):
    """Returns the settings of tiny studies, some of them changed, as options of a command."""
    settings = {each.partition("=")[0]: each for each in (*SETTINGS, *changed)}
    return [word for each in settings.values() for word in ("--set", each)]


def declared(*swaps, settings=(), tune=(), seeds=2, **others):
    varied = {each.partition("=")[0] for each in (*swaps, *tune)}
    given = {each.partition("=")[0]: each for each in (*SETTINGS, *settings)}
    changed = [each for path, each in given.items() if path not in varied]
    return read_study("dates", swaps=swaps or (SWAP,), settings=changed, tune=tune, seeds=seeds, **others)


def written(registry, **keys):
    """Returns the study that a dictionary with these keys is."""
    return read_study(read_dictionary(keys, "study", registry)[0])


def with_cells(results, change):
    """Returns results of changed cells: a function of each returns what is other in it."""
    return replace(results, cells=tuple(replace(cell, **change(cell)) for cell in results.cells))


class Inline(InlineExecutor):
    """Trains cells one after the other; some are stopped or fail."""

    def __init__(self, *, stop_after=None, break_in=(), **options):
        super().__init__(**options)
        self.begun = []
        self.stop_after = stop_after
        self.break_in = break_in

    def start(self, cell):
        if len(self.begun) == self.stop_after:
            self.stop()
            self.running[cell.name] = cell, Message(stopped=True)
            return
        self.begun.append(str(cell))
        if str(cell) in self.break_in:
            self.running[cell.name] = cell, Message(failure="it broke")
        else:
            super().start(cell)


def run(study, out, registry, console=None, *, costs=False, **options):
    """Runs a study; returns its results and the cells that were begun."""
    executor = Inline(**options)
    console = console or Console(quiet=True)
    return run_study(study, out, registry, executor, console, costs=costs), executor.begun
