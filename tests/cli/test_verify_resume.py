"""`plugformer verify-resume`: trainings killed and resumed in other processes, sound and faulty ones."""

import json
import re

import pytest

PARTS = '''
import random

import torch
from torch import nn

from plugformer.interfaces import FeedForward, Optimizer, Schedule


class Plain(FeedForward):
    def __init__(self, model):
        super().__init__()
        self.map = nn.Linear(model.width, model.width)

    def forward(self, x):
        return self.map(x) * self.factor()


class Counting(Plain):
    """Hides a count in Python."""

    def __init__(self, model):
        super().__init__(model)
        self.calls = 0

    def factor(self):
        self.calls += 1
        return 1 + self.calls / 100


class Saving(Plain):
    """Keeps its count where checkpoints find it, and draws from the global generators."""

    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("calls", torch.zeros(()))

    def factor(self):
        self.calls += 1
        return 1 + self.calls / 100 + random.random() / 10


class Drawing(Plain):
    """Has a generator of its own."""

    def __init__(self, model):
        super().__init__(model)
        self.own = torch.Generator().manual_seed(1)

    def factor(self):
        return torch.rand((), generator=self.own)


class Stepping(Schedule):
    """Counts its calls instead of looking at the update's number."""

    def __init__(self):
        self.calls = 0

    def factor(self, step, *, steps, width):
        self.calls += 1
        return 1 / self.calls


class Forgetful(torch.optim.SGD):
    """Counts updates in Python."""

    updates = 0

    def step(self, closure=None):
        self.updates = self.updates + 1
        for group in self.param_groups:
            group["lr"] /= self.updates
        super().step(closure)


class ForgetfulSGD(Optimizer):
    def __init__(self, *, lr: float = 0.01):
        self.lr = lr

    def build(self, parameters):
        return Forgetful([parameter for _, parameter in parameters], lr=self.lr)
'''
SMALL = (
    "data.size=60",
    "model.width=16",
    "model.heads=2",
    "model.layers=1",
    "model.ffn_width=16",
    "training.batch_size=8",
    "training.schedule=constant",
    "decoding.max_length=4",
    "evaluation.limit=1",
    "evaluation.samples=0",
)


@pytest.fixture
def verify(run, tmp_path):
    """Runs the command on a small task with parts of a local manifest."""
    (tmp_path / "local_parts.py").write_text(PARTS)
    names = {
        "feed_forward": ("Counting", "Saving", "Drawing"),
        "schedule": ("Stepping",),
        "optimizer": ("ForgetfulSGD",),
    }
    components = {
        kind: {name.lower(): {"class": f"local_parts:{name}", "summary": name} for name in of_kind}
        for kind, of_kind in names.items()
    }
    manifest = tmp_path / "registry.yaml"
    manifest.write_text(json.dumps({"components": components}))

    def verify(*settings, steps=6, kills=1, task="dates"):
        named = {setting.partition("=")[0]: setting for setting in (*SMALL, *settings)}
        chosen = [argument for setting in named.values() for argument in ("--set", setting)]
        amount = ["--steps", str(steps), "--kills", str(kills)]
        return run("verify-resume", task, *chosen, *amount, "--registry", str(manifest), "--json")

    return verify


def test_parts_that_keep_their_state_in_buffers_are_exact(verify):
    """In the middle of an epoch, with accumulation, dropout, and Python's own generator."""
    outcome = verify(
        "model.feed_forward=saving", "training.batches_per_update=2", "model.dropout=0.2", steps=8, kills=2
    )
    assert outcome.status == 0, outcome.err + outcome.out
    found = json.loads(outcome.out)
    assert (found["exact"], found["difference"], found["repeatable"]) == (True, None, None)
    assert len(found["killed"]) == 2
    assert all(3 <= step <= 8 for step in found["killed"])


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("model.feed_forward=counting", "loss"),
        pytest.param("model.feed_forward=drawing", "loss", marks=pytest.mark.long),
        pytest.param("training.schedule=stepping", "learning_rate", marks=pytest.mark.long),
        pytest.param("training.optimizer=forgetfulsgd", ".*", marks=pytest.mark.long),
    ],
)
def test_state_in_python_is_found(verify, setting, name):
    outcome = verify(setting)
    assert outcome.status == 1, outcome.err
    found = json.loads(outcome.out)
    assert (found["exact"], found["repeatable"]) == (False, True)
    assert re.match(name, found["difference"])


@pytest.mark.parametrize("settings", [(), ("training.evaluate_every=3",)])
def test_more_kills_than_updates(verify, settings):
    outcome = verify(*settings, kills=9)
    assert outcome.status == 2
    assert "--kills 9" in outcome.err


def test_a_training_that_fails_by_itself(verify):
    outcome = verify("data.files={train: missing.tsv}", "data.name=table")
    assert outcome.status == 2
    assert "Traceback" not in outcome.err
