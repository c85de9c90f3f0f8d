"""Decision accuracy of published studies: right on average, covered by intervals, and of every new study."""

import importlib
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

ROOT = Path(__file__).resolve().parents[2]
ARMS = ("mha", "gqa", "mqa", "mla", "retention")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("generators.decisions")


def study(
    docs: Path,
    name: str,
    contexts: list[Mapping[str, str]],
    loss: Callable[[Mapping[str, str], int, int], float],
    seeds: int = 6,
    seconds: float = 1.0,
) -> None:
    """Publishes a study of `ARMS`, whose losses are given by context, the number of the arm, and seed."""
    file = ROOT / "docs/studies/squared_relu/report.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    first, compared, tried = record["arms"][0], record["comparisons"][0], record["cells"][0]
    record |= {key: [] for key in ("arms", "comparisons", "cells", "contrasts", "laws", "trials", "looks")}
    record["study"] |= {"seeds": [*range(1, seeds + 1)]}
    for context in contexts:
        for number, label in enumerate(ARMS):
            arm = deepcopy(first) | {"arm": f"{context}{label}", "values": {**context, "attention": label}}
            record["arms"].append(arm)
            record["comparisons"] += [compared | {"arm": arm["arm"]}] if number else []
            for seed in range(1, seeds + 1):
                value = loss(context, number, seed)
                points = [{"step": step, "loss": value + 1 / step, "metrics": {}} for step in (50, 100, 200)]
                scores = {"loss": value, "metrics": {"perplexity": np.exp(value)}, "curve": points}
                record["cells"].append(tried | scores | {"arm": arm["arm"], "seed": seed, "tokens": 0})
                record["cells"][-1]["seconds"] = seconds
    folder = docs / "studies" / name
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(record), encoding="utf-8")


def cells(table: str, study: str) -> list[list[str]]:
    lines = [line.strip("|").split("|") for line in table.splitlines()]
    return [[cell.strip() for cell in line] for line in lines if line[0].strip() == study]


def test_a_new_study_is_in_the_tables(tables: ModuleType, tmp_path: Path) -> None:
    """At the small scale two arms come in the other order: nine of ten pairs agree, with every seed."""
    luck = np.random.default_rng(1).normal(0, 0.01, (2, len(ARMS), 7))
    order = {"small": (0, 1, 2, 4, 3), "large": (0, 1, 2, 3, 4)}
    scales = [{"scale": scale} for scale in order]
    study(
        tmp_path,
        "new",
        scales,
        lambda at, arm, seed: (
            1 + order[at["scale"]][arm] / 10 + luck[list(order).index(at["scale"]), arm, seed]
        ),
    )
    expected = ["new", "small for large", "–", "10", "0.90 [0.42, 1.00]", "1.00 [0.54, 1.00]", "10"]
    expected += ["0.90 [0.42, 1.00]", "9 of 10"]
    assert cells(tables.scale_table(tmp_path), "new") == [expected]
    parts = cells(tables.part_table(tmp_path), "new")
    assert [(line[1], line[3], line[8]) for line in parts] == [
        ("0.25 of each training", "10", "10 of 10"),
        ("0.5 of each training", "10", "10 of 10"),
    ]


def test_pairs_that_the_largest_rung_does_not_decide_are_no_errors(
    tables: ModuleType, tmp_path: Path
) -> None:
    """The first two arms are alike; the small scale orders them at random, all others rightly."""
    luck = np.random.default_rng(2).normal(0, 0.01, (2, len(ARMS), 9))
    scales = [{"scale": "small"}, {"scale": "large"}]
    study(
        tmp_path,
        "new",
        scales,
        lambda at, arm, seed: 1 + max(arm, 1) / 10 + luck[scales.index({**at}), arm, seed],
        seeds=8,
    )
    ((*_, pairs, everything, ceiling, number, clear, means),) = cells(tables.scale_table(tmp_path), "new")
    assert (pairs, number, clear, means) == ("10", "9", "1.00 [0.63, 1.00]", "9 of 9")
    assert 0.9 <= float(everything[:4]) < 1
    assert 0.9 <= float(ceiling[:4]) < 1


def test_probes_are_compared_with_costlier_studies_by_the_names_of_arms(
    tables: ModuleType, tmp_path: Path
) -> None:
    direction = {"recall": 1, "hops": -1}
    study(
        tmp_path,
        "probing",
        [{"task": task} for task in direction],
        lambda at, arm, seed: 2 + direction[at["task"]] * arm / 10 + seed / 100,
    )
    study(
        tmp_path, "flagship", [{"scale": "small"}, {"scale": "large"}], lambda _, arm, __: arm / 10, seconds=9
    )
    assert tables.probe_tables(tmp_path).splitlines() == [
        "| probing for flagship | small | large |",
        "| --- | --- | --- |",
        "| recall | 1.00 [0.08, 1.00], 5 arms | 1.00 [0.08, 1.00], 5 arms |",
        "| hops | -1.00 [-1.00, -0.08], 5 arms | -1.00 [-1.00, -0.08], 5 arms |",
    ]


@pytest.mark.parametrize("shared", [0.0, 0.7], ids=["another training", "a part of the training"])
def test_accuracies_are_right_on_average_and_intervals_cover(tables: ModuleType, shared: float) -> None:
    """Effects of arms at both rungs are known, and with them how often single trainings have which order.

    Seeds of a part of a training share `shared` of their luck with its end.
    """
    generator, studies, arms, seeds = np.random.default_rng(3), 150, 5, 6
    first, second = np.triu_indices(arms, 1)
    errors: dict[str, list[float]] = {"all": [], "ceiling": [], "decided": []}
    covered: dict[str, list[bool]] = {name: [] for name in errors}

    def note(name: str, estimate: Any, truth: float) -> None:
        mean, low, high = estimate
        errors[name].append(mean - truth)
        covered[name].append(low - 1e-9 <= truth <= high + 1e-9)

    for _ in range(studies):
        large = generator.normal(0, 1.5, arms)
        small = large + generator.normal(0, 0.7, arms)
        luck = generator.normal(size=(2, arms, seeds))
        luck[1] = shared * luck[0] + (1 - shared**2) ** 0.5 * luck[1]
        ends, parts = (
            tables.differences(effects[:, None] + own)
            for effects, own in ((large, luck[0]), (small, luck[1]))
        )
        gaps = [effects[first] - effects[second] for effects in (small, large)]
        one, single = (norm.cdf(gap / 2**0.5) for gap in gaps)
        others = norm.cdf(gaps[1] / (2 / (seeds - 1)) ** 0.5)
        note("all", tables.accuracy(parts, ends), np.mean(one * others + (1 - one) * (1 - others)))
        note("ceiling", tables.accuracy(ends, ends), np.mean(single * others + (1 - single) * (1 - others)))
        clear = [tables.decided(np.delete(ends, seed, axis=1)) for seed in range(seeds)]
        right = np.where(gaps[1] > 0, one, 1 - one)
        if any(each.any() for each in clear):
            truth = float(np.mean([right[each].mean() for each in clear if each.any()]))
            note("decided", tables.over_seeds(tables.agreements(parts, ends, clear=True)), truth)
    for name, each in errors.items():
        assert abs(np.mean(each)) < 4 * np.std(each) / len(each) ** 0.5, name
        assert np.mean(covered[name]) > 0.9, name
