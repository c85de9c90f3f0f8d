"""How often studies of real trainings find differences where there are none, and where there are.

    python benchmarks/same_arms.py --out DIR --workers 2

Every study trains a small model on dates of its own, for a baseline and its arms with five seeds, and is
judged as `plugformer ablate` judges it. In most of them arms differ in name alone: each draws initial values
and dropout from a stream of its own, in the same order of examples. In the others a difference is planted.
What is trained already is kept in DIR: the same command goes on.
"""

import argparse
import hashlib
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
import torch
from false_alarms import alarms
from simulating import share

from plugformer.registry import Kind, Registry
from plugformer.training.train import train
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import Findings, find
from plugformer_ablation.judging.results import CellResult, StudyResults, load_arrays, save_arrays
from plugformer_ablation.judging.statistics import StudentT

METRIC = "token_accuracy"
SEEDS = range(1, 6)
ARMS = 5
TASK = (
    "data.size=4000",
    "model.width=32",
    "model.ffn_width=64",
    "training.epochs=null",
    "training.batch_tokens=null",
    "training.batch_size=16",
    "training.optimizer.lr=0.006",
    "training.schedule={name: warmup_cosine, warmup_steps: 20}",
    "training.monitor=loss",
    "evaluation.samples=0",
    f"evaluation.metrics=[{METRIC}]",
)
ALIKE = ("model.dropout=0.1", "model.position=learned")
PLANTED = {
    "baseline": ALIKE,
    "dropout 0.6": ("model.dropout=0.6", "model.position=learned"),
    "no positions": ("model.dropout=0.1", "model.position=none"),
}

Settings = tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """What is trained.

    Attributes:
        arms: The settings of each, the baseline first.
    """

    arms: Mapping[str, Settings]

    @classmethod
    def alike(cls, number: int) -> "Study":
        """Returns a study whose arms are replicates, which no other study has."""
        names = ["baseline", *(f"alike {arm}" for arm in range(1, ARMS))]
        numbers = range(number * ARMS, (number + 1) * ARMS)
        common = (*TASK, *ALIKE, f"data.seed={number}", "training.steps=60")
        return cls(
            {name: (*common, f"training.replicate={n}") for name, n in zip(names, numbers, strict=True)}
        )

    @classmethod
    def planted(cls, number: int) -> "Study":
        """Returns a study whose arms are worse than its baseline."""
        common = (*TASK, f"data.seed={number}", f"training.replicate={number}", "training.steps=200")
        return cls({name: (*common, *settings) for name, settings in PLANTED.items()})

    def cells(self) -> Iterator[tuple[str, int, Settings]]:
        """Yields arm, seed and settings of each cell."""
        for arm, settings in self.arms.items():
            for seed in SEEDS:
                yield arm, seed, (*settings, f"training.seed={seed}")

    def findings(self, folder: Path, registry: Registry) -> Findings:
        """Returns what the study finds, all of whose cells are there."""
        metrics = {METRIC: registry.create(Kind.METRIC, METRIC)}
        cells = []
        for arm, seed, settings in self.cells():
            statistics = load_arrays(kept(folder, settings))
            score = metrics[METRIC].aggregate(statistics[METRIC])
            cells.append(CellResult(arm, seed, metrics={METRIC: score}, statistics=statistics))
        more: dict[str, Any] = {
            "values": {},
            "metric": METRIC,
            "split": "test",
            "test_set": "",
            "made_of": "",
            "start": None,
            "parts": [],
            "task": {},
            "notes": [],
            "tuned": {},
            "edges": {},
            "cost": {"parameters": 1, "flops": 1.0, "elements": 1.0, "update": None},
        }
        arms = tuple(
            {"name": arm, "baseline": None if arm == "baseline" else "baseline", **more} for arm in self.arms
        )
        study = {
            "study": "",
            "metric": METRIC,
            "split": "test",
            "seeds": list(SEEDS),
            "looks": [len(SEEDS)],
            "smallest_effect": None,
        }
        return find(StudyResults(study, arms, tuple(cells), {}, dict.fromkeys(self.arms, metrics)))


def kept(folder: Path, settings: Settings) -> Path:
    """Returns where the statistics of a cell are kept."""
    return folder / f"{hashlib.sha256(' '.join(settings).encode()).hexdigest()[:16]}.npz"


def train_cell(folder: Path, settings: Settings) -> None:
    """Trains a cell unless it has been, and keeps each test example's statistics."""
    if kept(folder, settings).exists():
        return
    with TemporaryDirectory() as run:
        report = train("dates", overrides=settings, out=Path(run, "run"), notify=str).report
    save_arrays(kept(folder, settings), report.statistics)


def print_scores(found: list[Findings]) -> None:
    """Prints where scores lie, and how far they spread within an arm."""
    table = pandas.concat([each.table for each in found])
    means, deviations = (table[f"score.{name}"].dropna().astype(float) for name in ("mean", "deviation"))
    print(
        f"{METRIC}: arms' means {means.min():.3f} to {means.max():.3f}, in the median {means.median():.3f}; "
        f"median deviation over seeds {deviations.median():.4f}"
    )


def tested(found: Findings) -> Iterator[tuple[list[float | None], str]]:
    """Yields of each comparison p by seeds alone, by examples alone and by both, and the verdict."""
    examples = len(found.results.cells[0].statistics[METRIC])
    for each in found.comparisons:
        freedoms = {"seeds": each["pairs"] - 1, "examples": examples - 1}
        errors = {name: each["standard_error"][name] for name in freedoms}
        alone = [
            None if errors[name] is None else StudentT(each["difference"], errors[name], freedom).p
            for name, freedom in freedoms.items()
        ]
        yield [*alone, each["p"]["single"]], each["verdict"]


def print_false_alarms(found: list[Findings]) -> None:
    """Prints how often arms that differ in name alone are called different."""
    hits = np.array([alarms(tested(one)) for one in found])
    cells = [share(column.ravel()) for column in np.moveaxis(hits[..., :3], -1, 0)]
    studies = [share(hits[..., place].any(axis=1)) for place in (2, 3)]
    print(f"Arms alike: % of {hits[..., 0].size} comparisons, then of {len(hits)} studies, with a difference")
    print("| seeds alone | examples alone | both together | studies | studies, corrected |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| {' | '.join([*cells, *studies])} |")


def print_power(found: list[Findings]) -> None:
    """Prints how often planted differences are found."""
    print(f"Planted: % of {len(found)} studies that call the arm worse, and the difference in the median")
    print("| arm | called worse, corrected | difference |")
    print("| --- | --- | --- |")
    for arm in [name for name in PLANTED if name != "baseline"]:
        judged = [each for one in found for each in one.comparisons if each["arm"] == arm]
        difference = np.median([each["difference"] for each in judged])
        worse = share(np.array([each["verdict"] == Verdict.WORSE for each in judged]))
        print(f"| {arm} | {worse} | {difference:.3f} |")


def main() -> None:
    """Trains what is not there yet, then prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where cells are kept")
    parser.add_argument("--alike", type=int, default=50, help="studies without a difference")
    parser.add_argument("--planted", type=int, default=10, help="studies with one")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["PLUGFORMER_CACHE"] = str(options.out / "cache")
    alike = [Study.alike(number) for number in range(1, options.alike + 1)]
    planted = [Study.planted(number) for number in range(1, options.planted + 1)]
    cells = [settings for study in (*alike, *planted) for _, _, settings in study.cells()]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, spawn, torch.set_num_threads, (1,)) as pool:
        for done, _ in enumerate(pool.map(partial(train_cell, options.out), cells), start=1):
            print(f"\r{done} of {len(cells)} trainings", end="", flush=True)
    print()
    registry = Registry.discover()
    if alike:
        found = [study.findings(options.out, registry) for study in alike]
        print_scores(found)
        print_false_alarms(found)
    if planted:
        print_power([study.findings(options.out, registry) for study in planted])


if __name__ == "__main__":
    main()
