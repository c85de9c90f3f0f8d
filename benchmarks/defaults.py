"""Tasks that say nothing but data, tokenizer, architecture and head, beside the settings tuned for them.

    python benchmarks/defaults.py --seeds 3
    python benchmarks/defaults.py ag-news-3000 --also training.optimizer.lr=0.002
    python benchmarks/defaults.py dates copying --times 4

All are trained for the same processor time with one thread: the tuned settings make the updates that are
given below, the others as many as take as long, by the time of some updates of each in turn. Scores are those
of the best evaluation on validation, of which all have equally many. `PLUGFORMER_DATA` names the data.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
import yaml

from plugformer.configuration import dump, resolve
from plugformer.hooks import EvaluationResult, Run, Update, hookimpl
from plugformer.training.train import train

EVALUATIONS = 2
WARM, TIMED = 5, 25
"""Updates before the clock starts, and those that it measures."""


class Comparison(NamedTuple):
    """A task with tuned settings.

    Attributes:
        task: Its name or file.
        steps: Updates of the tuned settings.
        metric: What is compared.
        settings: Of both.
        tuned: Of the tuned settings alone: a warm-up that suits fewer updates than the task's.
    """

    task: str
    steps: int
    metric: str
    settings: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()


ROWS_3000 = (
    'data={name: table, files: {train: "${PLUGFORMER_DATA}/ag_news/train_head.csv"}, header: false, '
    "columns: {text: [2, 3], label: 1}, labels: [World, Sports, Business, Sci/Tech]}",
    "data.split={validation: 1500, test: 5929}",
)
GREEDY = ("decoding={name: greedy, max_length: source+20}",)
COMPARISONS = {
    "ag-news": Comparison("ag-news", 500, "accuracy"),
    "ag-news-3000": Comparison("ag-news", 300, "accuracy", ROWS_3000),
    "dates": Comparison("dates", 500, "exact_match"),
    "copying": Comparison("copying", 1500, "exact_match"),
    "tatoeba-zh-en": Comparison(
        "tatoeba-zh-en", 350, "bleu_lowercase", GREEDY, ("training.schedule.warmup_steps=50",)
    ),
}


class Watch:
    """What a training took and reached: a callback.

    Attributes:
        best: The best evaluation.
        ends: Processor time at the end of each update.
    """

    def __init__(self) -> None:
        self.best: EvaluationResult | None = None
        self.ends: list[float] = []

    @hookimpl
    def step_ended(self, run: Run, update: Update) -> None:  # noqa: ARG002 (pluggy goes by names)
        """Notes the processor time."""
        self.ends.append(time.process_time())

    @hookimpl
    def evaluation_ended(self, run: Run, evaluation: EvaluationResult) -> None:  # noqa: ARG002
        """Keeps the best evaluation."""
        if evaluation.best:
            self.best = evaluation


class Arm:
    """One of two ways to train a task.

    Args:
        task: A task's name or file.
        settings: On top of it.
    """

    def __init__(self, task: str, settings: Sequence[str]) -> None:
        self.task = task
        self.settings = [*settings, "evaluation.limit=null", "evaluation.samples=0"]

    def update_time(self) -> float:
        """Returns the processor time of an update, in seconds."""
        steps = WARM + TIMED
        watch = self._watched(f"training.steps={steps}", "evaluation.limit=1", "evaluation.metrics=[]")
        return (watch.ends[-1] - watch.ends[WARM - 1]) / TIMED

    def score(self, metric: str, steps: int, seed: int) -> tuple[float, float]:
        """Returns the metric and the loss of the best evaluation of a training."""
        watch = self._watched(
            f"training.steps={steps}",
            f"training.evaluate_every={-(-steps // EVALUATIONS)}",
            f"training.seed={seed}",
        )
        assert watch.best is not None  # every training ends with an evaluation  # noqa: S101
        return watch.best.metrics[metric], watch.best.loss

    def _watched(self, *settings: str) -> Watch:
        watch = Watch()
        given = {each.partition("=")[0]: each for each in (*self.settings, *settings)}
        if "evaluation.metrics=[]" in settings:
            given["training.monitor"] = "training.monitor=loss"
        with TemporaryDirectory() as folder:
            train(
                self.task,
                overrides=list(given.values()),
                out=Path(folder) / "run",
                callbacks=[watch],
                notify=lambda line: None,  # noqa: ARG005
                final="validation",
            )
        return watch


def bare(task: str, settings: Sequence[str], folder: Path) -> Path:
    """Writes what a task says of data, tokenizer, architecture and head, and nothing else that trains."""
    whole = yaml.safe_load(dump(resolve(task, settings).task))
    kept = {key: whole[key] for key in ("type", "data", "tokenizer", "decoding", "evaluation")}
    model = {"architecture": whole["model"]["architecture"], "head": whole["model"]["head"]["name"]}
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump({**kept, "model": model}, allow_unicode=True, sort_keys=False))
    return path


def compare(name: str, seeds: int, also: Sequence[str], times: int, folder: Path) -> None:
    """Trains a task in all ways and prints a row of each."""
    one = COMPARISONS[name]
    task = str(bare(one.task, one.settings, folder))
    arms = {"tuned": Arm(one.task, [*one.settings, *one.tuned]), "defaults": Arm(task, [])}
    arms |= {each: Arm(task, each.split()) for each in also}
    measured = [[arm.update_time() for arm in arms.values()] for _ in range(2)]
    seconds = [statistics.mean(each) for each in zip(*measured, strict=True)]
    for (label, arm), each in zip(arms.items(), seconds, strict=True):
        updates = round(times * one.steps * seconds[0] / each)
        found = [arm.score(one.metric, updates, seed) for seed in range(1, seeds + 1)]
        scores, losses = zip(*found, strict=True)
        print(
            f"| {name} | {label} | {updates:,} | {updates * each:.0f} s | {one.metric} "
            f"| {', '.join(f'{score:.4f}' for score in scores)} "
            f"| {statistics.mean(scores):.4f} | {statistics.mean(losses):.4f} |",
            flush=True,
        )


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--also", action="append", default=[], help="settings of one more arm, on the defaults"
    )
    parser.add_argument("--times", type=int, default=1, help="train that many times as long")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | settings | updates | time | metric | scores | mean | loss |", flush=True)
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with TemporaryDirectory() as folder:
        for name in arguments.names or COMPARISONS:
            compare(name, arguments.seeds, arguments.also, arguments.times, Path(folder))


if __name__ == "__main__":
    main()
