"""Trainings that are stopped in the middle, and all that one leaves, to be compared with another."""

import json
import signal

import torch

from plugformer.hooks import hookimpl
from plugformer.runs import RunDirectory
from plugformer.runs.store import load_tensors


class Interrupter:
    """Sends its own process a signal after some updates."""

    def __init__(self, *steps, number=signal.SIGINT):
        self.number, self.steps = number, steps

    @hookimpl
    def step_ended(self, update):
        if update.step in self.steps:
            signal.raise_signal(self.number)


class Killer:
    """Ends the process, as far as the run can see, when a hook is called; no handler runs."""

    def __init__(self, step, hook="step_ended"):
        self.step, self.hook = step, hook

    def at(self, hook, step):
        if (self.hook, self.step) == (hook, step):
            raise KeyboardInterrupt

    @hookimpl(trylast=True)
    def step_ended(self, update):
        self.at("step_ended", update.step)

    @hookimpl(trylast=True)
    def evaluation_ended(self, evaluation):
        self.at("evaluation_ended", evaluation.step)

    @hookimpl(trylast=True)
    def average_evaluated(self, evaluation):
        self.at("average_evaluated", evaluation.step)


def logged(run, event=None):
    """Returns the lines that a run has logged, or those of an event, without their times."""
    lines = [line for line in RunDirectory(run).logged() if event in (None, line["event"])]
    return [{key: value for key, value in line.items() if "second" not in key} for line in lines]


def last_checkpoint(run):
    return max((run / "checkpoints").iterdir())


def progress(run):
    """Returns how far a training is by its last checkpoint, without times."""
    found = json.loads((last_checkpoint(run) / "state.json").read_text())
    for each in (found["progress"], found["progress"]["unlogged"]):
        each.pop("seconds", None)
    return found


def tensors(run):
    """Returns the tensors of the model and of the last checkpoint, by file."""
    files = (run / "model.safetensors", *sorted(last_checkpoint(run).glob("*.safetensors")))
    return {str(file.relative_to(run)): load_tensors(file) for file in files}


def assert_same_tensors(one, other):
    mine, yours = tensors(one), tensors(other)
    assert mine.keys() == yours.keys()
    for file in mine:
        assert mine[file].keys() == yours[file].keys()
        assert all(torch.equal(mine[file][name], yours[file][name]) for name in mine[file]), file


def assert_same_end(one, other):
    """Compares everything that two trainings left."""
    assert_same_tensors(one, other)
    assert (progress(one), logged(one)) == (progress(other), logged(other))
