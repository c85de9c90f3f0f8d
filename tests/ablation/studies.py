"""Tiny studies, and an executor that runs their cells in this process, as it is told to."""

from plugformer.errors import PlugformerError
from plugformer_ablation.executor import Executor
from plugformer_ablation.running import StudyRunner
from plugformer_ablation.study import read_study
from plugformer_ablation.training import Message, train_cell

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


def declared(*swaps, settings=(), tune=(), seeds=2, **others):
    varied = {each.partition("=")[0] for each in (*swaps, *tune)}
    given = {each.partition("=")[0]: each for each in (*SETTINGS, *settings)}
    changed = [each for path, each in given.items() if path not in varied]
    return read_study("dates", swaps=swaps or (SWAP,), settings=changed, tune=tune, seeds=seeds, **others)


class Inline(Executor):
    """Trains cells one after the other; some are stopped or fail."""

    def __init__(self, *, stop_after=None, break_in=()):
        super().__init__(threads=1, workers=1)
        self.begun = []
        self.told = []
        self.stop_after = stop_after
        self.break_in = break_in

    @property
    def running(self):
        return len(self.told)

    def start(self, cell):
        if len(self.begun) == self.stop_after:
            self.stop()
            self.told.append((cell, Message(stopped=True)))
            return
        self.begun.append(str(cell))
        try:
            if str(cell) in self.break_in:
                raise PlugformerError("it broke")
            train_cell(cell, lambda step, steps: None, str)
            self.told.append((cell, Message()))
        except PlugformerError as error:
            self.told.append((cell, Message(failure=str(error))))

    def receive(self):
        while self.told:
            yield self.told.pop()

    def interrupt(self):
        pass

    def end(self):
        pass


def run(study, out, registry, console, **options):
    """Runs a study; returns its results and the cells that were begun."""
    executor = Inline(**options)
    return StudyRunner(executor, registry, console).run(study, out), executor.begun
