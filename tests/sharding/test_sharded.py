"""Processes that keep a part of the model each: their parts, and that nothing else differs."""

import pytest
import torch
from tests.training.interrupted import assert_same_tensors
from tests.training.processes import (
    differences,
    ends,
    interrupted_after,
    launched,
    lines,
    train_command,
    wait_for,
)
from torch import nn

from plugformer.distributed import SINGLE_PROCESS
from plugformer.errors import ConfigurationError
from plugformer.runs.loading import load
from plugformer.training.sharded import Sharded

SHARD = "training.shard=true"
WITH_ADAMW = (SHARD, "training.optimizer=adamw")
EVERYTHING = (
    SHARD,
    "model.embeddings={shared: true, tied: true}",
    "model.feed_forward={name: moe, experts: 3}",
    "training.steps=4",
    "training.evaluate_every=2",
    "training.log_every=2",
    "training.batches_per_update=4",
    "training.gradient_checkpointing=true",
    "training.gradient_clipping=0.1",
    "training.callbacks=[{name: average_checkpoints, checkpoints: 2}]",
    # Else Adam makes steps of rounding errors, and steps of one size whatever the size of gradients.
    "training.optimizer={name: adamw, lr: 0.01, epsilon: 0.01, "
    "groups: [{parameters: ['*.bias'], lr_factor: 0.5, weight_decay: 0}]}",
)

TRAIN = """
import sys
from pathlib import Path
from torch.distributed.tensor import DTensor, Shard
from plugformer.training import setup
from plugformer.training.train import train

made = []


class Kept(setup.Trainer):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        made.append(self)


setup.Trainer = Kept
train("dates", overrides=sys.argv[2:], out=Path(sys.argv[1]), notify=str)
(trainer,) = made
parameters = list(trainer.model.parameters())
states = [trainer.state.optimizer.state[each] for each in parameters]
moments = [each[name] for each in states for name in ("exp_avg", "exp_avg_sq")]
for each in parameters + moments:
    assert isinstance(each, DTensor)
    assert each.placements == (Shard(0),)
    assert abs(each.to_local().shape[0] - each.shape[0] / 2) <= 0.5
assert sum(each.to_local().numel() for each in parameters) < 0.51 * sum(each.numel() for each in parameters)
assert [name for name, _ in trainer.model.named_parameters()] == [
    name for name, _ in trainer.state.model.named_parameters()
]
"""


def test_two_parts_train_as_one_whole(train_tiny, short_settings, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    train_tiny(one, *EVERYTHING, "model.dropout=0.0")
    settings = short_settings(*EVERYTHING, "model.dropout=0.0")
    with launched(2, "-c", TRAIN, str(two), *settings) as processes:
        for process in ends(processes):
            assert process.status == 0, process.messages
    assert differences(one, two) < 1e-6
    mine, yours = (load(each).model.state_dict() for each in (one, two))
    torch.testing.assert_close(mine, yours, atol=1e-6, rtol=0)
    for mine, yours in zip(lines(one), lines(two), strict=True):
        assert mine["event"] == yours["event"]
        assert mine["loss"] == pytest.approx(yours["loss"], abs=1e-6)


ROUND = """
from copy import deepcopy
import torch
from torch.distributed.tensor import DTensor
from plugformer import create_model
from plugformer.configuration.task import TrainingSettings
from plugformer.distributed import Processes
from plugformer.training.sharded import Sharded

group = Processes.join()
sizes = {"vocabulary": 12, "width": 16, "heads": 2, "layers": 1}
model = create_model("decoder-only", **sizes, attention="mha", position="rope", feed_forward="gelu")
model.register_buffer("rank", torch.full((1,), float(group.index)))
sharded = Sharded(model, TrainingSettings(), group)
sharded.loss(model.batch(outputs=[[4, 5, 6], [7]])).total.backward()
assert sharded.model.rank == 0, "the buffers are the main process's"
before = deepcopy(model)
with torch.no_grad():
    for each in sharded.model.parameters():
        each += 1
with sharded.full_model() as whole:
    for old, new in zip(before.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(new, old + 1)
        new.data -= 1
sharded.shard_from_full()
sharded.unshard()
for old, new in zip(before.parameters(), model.parameters(), strict=True):
    torch.testing.assert_close(new, old)
average = {name: each.detach().clone() for name, each in sharded.trained.named_parameters()}
whole = sharded.gather({"average": average, "updates": 3})
for name, each in model.named_parameters():
    torch.testing.assert_close(whole["average"][name], each.detach())
own = sharded.scatter(whole)
assert own["updates"] == 3
for name, each in average.items():
    torch.testing.assert_close(own["average"][name].to_local(), each.to_local())


class Remembering(torch.optim.SGD):
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["past"] = [parameter.detach().clone()]
        return super().step(closure)


optimizer = sharded.prepare(Remembering(sharded.trained.parameters(), lr=0.1))
optimizer.step()
saved = optimizer.state_dict()
if group.main:
    for number, old in enumerate(before.parameters()):
        torch.testing.assert_close(saved["state"][number]["past"], [old.detach()])
optimizer.load_state_dict(group.on_main(lambda: saved))
for parameter, old in zip(sharded.trained.parameters(), before.parameters(), strict=True):
    (past,) = optimizer.state[parameter]["past"]
    assert isinstance(past, DTensor)
    torch.testing.assert_close(past.full_tensor(), old.detach())
"""


def test_what_is_shared_out_comes_together_again():
    """Parameters, and whatever hooks and an optimizer keep of them."""
    with launched(2, "-c", ROUND) as processes:
        for process in ends(processes):
            assert process.status == 0, process.messages


def test_what_cannot_be_shared_out_is_refused(tiny_model, tiny_task):
    model = tiny_model()
    model.encoder.layers[0].temperature = nn.Parameter(torch.ones(()))
    with pytest.raises(ConfigurationError, match=r"encoder\.layers\.0\.temperature is a single number"):
        Sharded(model, tiny_task().training, SINGLE_PROCESS)


@pytest.mark.long
def test_resumed_equals_uninterrupted(short_settings, tmp_path):
    """With dropout, whose draws differ between processes; the signal reaches only one of them."""
    settings = short_settings(*WITH_ADAMW)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with launched(2, *train_command(settings, whole)) as processes:
        assert [each.status for each in ends(processes)] == [0, 0]
    with launched(2, *train_command(settings, parts, *interrupted_after(3, tmp_path))) as processes:
        assert [each.status for each in ends(processes)] == [130, 130]
    with launched(2, "-m", "plugformer", "train", "--resume", "--out", str(parts)) as processes:
        assert [each.status for each in ends(processes)] == [0, 0]
    assert_same_tensors(whole, parts)


@pytest.mark.long
def test_another_number_of_processes_goes_on(train_tiny, short_settings, tmp_path):
    """One whole model becomes two parts, three, and one whole again."""
    others = ("batches_per_update=6", "callbacks=[]", "gradient_clipping=null")
    settings = (*EVERYTHING, "model.dropout=0.0", *(f"training.{each}" for each in others))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_tiny(whole, *settings, "training.steps=8")
    command = train_command(short_settings(*settings, "training.steps=2"), parts)
    for step, count in {2: 1, 4: 2, 6: 3, 8: 1}.items():
        with launched(count, *command) as processes:
            for process in ends(processes):
                assert process.status == 0, process.messages
        task = parts / "task.yaml"
        task.write_text(task.read_text().replace(f"steps: {step}\n", f"steps: {step + 2}\n"))
        command = ["-m", "plugformer", "train", "--resume", "--out", str(parts)]
    assert differences(whole, parts) < 1e-6


@pytest.mark.long
def test_the_end_of_one_ends_the_others(short_settings, tmp_path):
    out = tmp_path / "run"
    with launched(2, *train_command(short_settings(*WITH_ADAMW, "training.steps=100000"), out)) as processes:
        wait_for(out, 3)
        processes[1].kill()
        main, _ = ends(processes)
    assert main.status == 2
    assert "Error: process 0 of 2 has lost another process" in main.messages


@pytest.mark.long
def test_the_cause_of_what_is_not_finite_is_found(short_settings, tmp_path):
    settings = short_settings(SHARD, "training.optimizer={name: adamw, lr: 1.0e30}")
    with launched(2, *train_command(settings, tmp_path / "run")) as processes:
        main, other = ends(processes)
    assert (main.status, other.status) == (2, 2)
    assert "First non-finite output" in main.messages
