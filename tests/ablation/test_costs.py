"""Costs of updates: on a machine with a fake clock, whose second half is slow, and with real processes."""

import json
import os
import platform
from contextlib import contextmanager
from unittest.mock import Mock

import numpy as np
import pytest
from tests.ablation.studies import declared

from plugformer.errors import RunError
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.matching import matched
from plugformer_ablation.running import costs, executors
from plugformer_ablation.running.costs import ROUNDS, in_turn, relative_cost, with_costs, with_equal_time

TRUE = 1.2


class Machine:
    """Runs blocks; from a block on all take three times as long, and in another block half as long."""

    def __init__(self, slow_from=None, fast=()):
        self.slow_from, self.fast, self.blocks = slow_from, fast, 0
        self.noise = np.random.default_rng(1)

    def run(self, name):
        slow = self.slow_from is not None and self.blocks >= self.slow_from
        factor = (3.0 if slow else 1.0) * (0.5 if self.blocks in self.fast else 1.0)
        self.blocks += 1
        processor = (TRUE if name == "arm" else 1.0) * self.noise.uniform(0.99, 1.01)
        return factor * processor


def test_a_slow_second_half_changes_no_verdict():
    found = []
    # The first round does not count, and the change comes between the two blocks of a later one.
    for machine in (Machine(), Machine(slow_from=2 + ROUNDS + 1, fast=[4])):
        blocks = in_turn(["baseline", "arm"], machine.run)
        found.append(relative_cost(blocks["arm"], blocks["baseline"]))
    quiet, busy = found
    assert busy["verdict"] == quiet["verdict"] == "slower"
    assert busy["low"] < TRUE < busy["high"]
    assert quiet["low"] < busy["ratio"] < quiet["high"]
    assert relative_cost(blocks["baseline"], blocks["baseline"])["verdict"] == "not distinguishable"


def test_every_round_begins_with_another_arm():
    order = []
    blocks = in_turn("abc", lambda name: order.append(name) or 0.0)
    assert "".join(order).startswith("abcbcacababc")
    assert {name: len(seconds) for name, seconds in blocks.items()} == dict.fromkeys("abc", ROUNDS)


def test_arms_run_in_turn_and_one_that_cannot_be_trained_has_no_cost(registry, tmp_path):
    study = declared("model.ffn_width=[32, 16384, 64]", seeds=1)  # a busy machine hides smaller differences
    narrow, wide, third = matched(resolve_arms(study, registry), study, str)
    data = third.resolved.task.data.model_copy(update={"size": "many"})
    third = third.with_task(third.resolved.task.model_copy(update={"data": data}))
    said = []
    costs = [arm.cost for arm in with_costs([narrow, wide, third], tmp_path, 1, said.append)]
    assert (costs[0]["low"], costs[0]["ratio"], costs[0]["high"], costs[2]) == (1, 1, 1, None)
    assert 1 < costs[1]["low"] <= costs[1]["ratio"] <= costs[1]["high"]
    assert costs[1]["verdict"] == "slower"
    assert "the cost of ffn_width=64 cannot be measured: " in said[-1]
    assert "'many'" in said[-1]
    assert len(json.loads((tmp_path / "costs.json").read_text())) == 2
    kept = with_costs([narrow, wide], tmp_path, 4, said.append)  # other threads, the same costs
    assert [arm.cost for arm in kept] == costs[:2]
    with pytest.raises(RunError, match="needs the cost of ffn_width=64"):
        with_equal_time([narrow, third], tmp_path, 1, str)


@pytest.mark.parametrize(
    ("gpus", "widths", "expected"),
    [
        ([], [32, 64, 96], [(None, ["baseline", "64", "96"])]),
        (["0"], [32, 64, 96], [("0", ["baseline", "64", "96"])]),
        (["2", "5"], [32, 64, 96], [("2", ["baseline", "64"]), ("5", ["baseline", "96"])]),
        (["2", "5"], [32], [("2", ["baseline"])]),
    ],
)
def test_timing_is_spread_over_the_gpus_and_an_arm_shares_one_with_the_baseline(
    gpus, widths, expected, registry, tmp_path, monkeypatch
):
    groups = []

    @contextmanager
    def started(arms, threads, gpu, notify):
        groups.append((gpu, [arm.name.removeprefix("ffn_width=") for arm in arms.values()]))
        yield lambda name: 1.0

    monkeypatch.setattr(costs, "visible_gpus", lambda: gpus)
    monkeypatch.setattr(costs, "_started", started)
    study = declared(f"model.ffn_width={[*widths, 128]}", seeds=1)
    arms = matched(resolve_arms(study, registry), study, str)[: len(widths)]
    said = []
    with_costs(arms, tmp_path, 1, said.append)
    assert groups == expected
    assert platform.node() in said[0]


def test_a_timing_process_sees_its_gpu_alone(registry, monkeypatch):
    arm = resolve_arms(declared(seeds=1), registry)[0]
    started = Mock(return_value=(Mock(), Mock()))
    monkeypatch.setattr(costs, "start_process", started)
    with costs._started({"a": arm}, 1, "2", str):
        target, gpu, *arguments = started.call_args.args
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    seen = []
    monkeypatch.setattr(costs, "train", lambda *_, **__: seen.append(os.environ["CUDA_VISIBLE_DEVICES"]))
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    executors.run_on(gpu, target, *arguments, Mock())
    assert seen == ["2"]
