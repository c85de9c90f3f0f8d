"""Costs of updates: on a machine with a fake clock, whose second half is slow, and with real processes."""

import io
import json

import numpy as np
import pytest
from rich.console import Console
from tests.ablation.studies import declared, run

from plugformer.errors import RunError
from plugformer_ablation.arms import resolve_arms
from plugformer_ablation.costs import ROUNDS, in_turn, measured_costs, relative_cost
from plugformer_ablation.findings import find
from plugformer_ablation.report import remarks, report_text

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
        return np.array([factor * processor, processor, processor])


def arm_after_arm(names, run):
    return {name: [run(name) for _ in range(ROUNDS)] for name in names}


def with_ratio(figure):
    def cost(blocks, baseline):
        ours, theirs = np.array(blocks)[:, 0], np.array(baseline)[:, 0]
        return {**relative_cost(blocks, baseline), "ratio": figure(ours) / figure(theirs)}

    return cost


@pytest.mark.parametrize(
    ("order", "cost", "right"),
    [
        (in_turn, relative_cost, True),
        (arm_after_arm, relative_cost, False),
        (in_turn, with_ratio(np.min), False),
        (in_turn, with_ratio(np.median), False),
    ],
    ids=["as it is", "arm after arm", "smallest of rounds", "ratio of medians"],
)
def test_a_slow_second_half_changes_no_verdict(order, cost, right):
    found = []
    # The first round does not count, and the change comes between the two blocks of a later one.
    for machine in (Machine(), Machine(slow_from=2 + ROUNDS + 1, fast=[4])):
        blocks = order(["baseline", "arm"], machine.run)
        found.append(cost(blocks["arm"], blocks["baseline"]))
    quiet, busy = found
    agrees = (
        busy["verdict"] == quiet["verdict"] == "slower"
        and busy["low"] < TRUE < busy["high"]
        and quiet["low"] < busy["ratio"] < quiet["high"]
    )
    assert bool(agrees) is right
    assert relative_cost(blocks["baseline"], blocks["baseline"])["verdict"] == "not distinguishable"


def test_every_round_begins_with_another_arm():
    order = []
    blocks = in_turn("abc", lambda name: order.append(name) or np.zeros(3))
    assert "".join(order).startswith("abcbcacababc")
    assert {name: len(seconds) for name, seconds in blocks.items()} == dict.fromkeys("abc", ROUNDS)


def test_a_report_says_that_the_machine_was_busy(made_up):
    results = made_up({"baseline": 0.9, "other": 0.5}, seeds=2, examples=40)
    assert "no processor for 27% of the time" in remarks(find(results))[-1]
    results.arms[0]["cost"]["update"]["waiting"] = results.arms[1]["cost"]["update"]["waiting"] = 0.09
    assert "busy" not in " ".join(remarks(find(results)))


def test_arms_run_in_turn_and_the_report_shows_what_their_updates_cost(registry, tmp_path):
    swap = "model.ffn_width=[32, 1024]"
    study = declared(swap, seeds=1)
    results, _ = run(study, tmp_path, registry, Console(file=io.StringIO()), costs=True)
    baseline, wide = (arm["cost"]["update"] for arm in results.arms)
    assert baseline["ratio"] == baseline["low"] == baseline["high"] == 1
    assert wide["verdict"] == "slower"
    assert 1 < wide["low"] <= wide["ratio"] <= wide["high"] <= wide["most"]
    assert f"{wide['ratio']:.2f} [{wide['low']:.2f}, {wide['high']:.2f}]" in report_text(find(results), None)
    assert len(json.loads((tmp_path / "costs.json").read_text())) == 2


def test_an_arm_that_cannot_be_trained_is_named(registry, tmp_path):
    first, second = resolve_arms(declared(), registry)
    data = second.resolved.task.data.model_copy(update={"size": "many"})
    broken = second.resolved.task.model_copy(update={"data": data})
    with pytest.raises(RunError, match=r"the cost of attention=gqa.* cannot be measured: "):
        measured_costs([first, second.with_task(broken)], tmp_path, 1, str)
