"""What a study would train: its arms, and about how much time and disk that takes."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from plugformer import train
from plugformer.configuration import TrainingSettings
from plugformer.hooks import Run, Update, hookimpl, must_not_fail
from plugformer.registry import Registry
from plugformer_ablation.design.arms import Arm, resolve_arms, written
from plugformer_ablation.design.blocks import Keep
from plugformer_ablation.design.matching import matched
from plugformer_ablation.design.study import Study
from plugformer_ablation.judging.results import Record
from plugformer_ablation.running.costs import now
from plugformer_ablation.running.executors import Executor
from plugformer_ablation.running.noise import noise_text, planned_noise

TIMED = 5
"""Updates of the baseline that are timed, after the first one, which loads data and allocates memory."""

WEIGHT, CHECKPOINT = 4, 12
"""Bytes of a parameter in `model.safetensors`, and in a checkpoint, with the two moments of Adam."""


def plan(
    study: Study, out: Path, registry: Registry, executor: Executor, notify: Callable[[str], None]
) -> Record:
    """Returns what a study would train, after all arms have been checked and the data prepared.

    If its noise has been measured in its folder `out`, what it can find, too: see `planned_noise`.

    `update_seconds` is measured, of the baseline with the threads of a training; `seconds`, of the updates of
    all trainings one after the other, scales it by the operations of a forward pass. `bytes` are weights and
    checkpoints, as far as the study keeps them, and all of those of running cells. Both assume that tuning
    chooses each setting equally often and ends after the first round, which is wrong if `tuning_goes_on`.

    Raises:
        PlugformerError: What `matched` refuses, or the baseline cannot be trained.
    """
    arms = matched(resolve_arms(study, registry), study, notify)
    choices = Counter(arm.name for arm in arms)
    screening = study.screen.seeds if study.screen else 0
    seeds = len(study.seed_list) + screening
    tuning, tuned = study.tuning.seeds, [number for number in choices.values() if number > 1]
    numbers = [choices[arm.name] for arm in arms]
    each = [seeds if n == 1 or tuning == "each" else seeds / n + tuning for n in numbers]
    update, run = _timed(arms[0], executor.threads)
    work = [1.0 if study.match == "time" else _work(arm, run) / _work(arms[0], run) for arm in arms]
    return {
        "study": study.title,
        "arms": [
            {
                "name": arm.name,
                "values": arm.values,
                "parameters": int(arm.counted["parameters"]),
                "ffn_width": arm.resolved.task.model.ffn_width,
                "notes": _notes([arm, *others]),
            }
            for _, (arm, *others) in groupby(arms, key=lambda arm: arm.name)
        ],
        "seeds": study.seed_list,
        "trainings": len(choices) * len(study.seed_list),
        "tuning_trainings": sum(seeds * (n - 1) if tuning == "each" else tuning * n for n in tuned),
        "tuning_goes_on": bool(study.tuning.extend) or study.tuning.strategy != "grid",
        "screening_trainings": screening * len(choices),
        "workers": executor.workers,
        "update_seconds": update,
        "seconds": update * run.steps * sum(map(mul, each, work)),
        "bytes": round(
            sum(number * _bytes(arm, arm.keep) for number, arm in zip(each, arms, strict=True))
            + (executor.workers or 1) * max(_bytes(arm, "all") for arm in arms)
        ),
        "noise": planned_noise(study, out, arms),
    }


def _notes(choices: Sequence[Arm]) -> list[str]:
    """Returns the notes of an arm; those of single settings that tuning tries begin with these."""
    told = [
        note if all(note in other.notes for other in choices) else f"{arm.tried}: {note}"
        for arm in choices
        for note in arm.notes
    ]
    return list(dict.fromkeys(told))


def plan_text(record: Record) -> str:
    """Returns a plan for a terminal: a line for each arm, then time and disk."""
    trainings, trials, seconds = (record[key] for key in ("trainings", "tuning_trainings", "seconds"))
    arms, seeds = record["arms"], len(record["seeds"])
    lines = [f"{record['study']}: {trainings} trainings, of {len(arms)} arms with {seeds} seeds each"]
    least = "at least " if record["tuning_goes_on"] else ""
    lines += [f"and {least}{trials} more, by which settings are chosen"] * bool(trials)
    if screening := record["screening_trainings"]:
        lines.append(f"before them {screening} trainings that screen the arms, of which some go on")
    for arm in arms:
        lines.append("; ".join([f"  {arm['name']}: {arm['parameters']:,} parameters", *arm["notes"]]))
    together = min(record["workers"] or 1, trainings)
    parallel = f", {_duration(seconds / together)} with {together} at a time" if together > 1 else ""
    lines.append(
        f"about {_duration(seconds)} of updates{parallel}: an update of the baseline took "
        f"{1000 * record['update_seconds']:.3g} ms, others are scaled by their operations; starts and "
        "evaluations are not included"
    )
    lines.append(f"about {_size(record['bytes'])} of disk for weights and checkpoints")
    lines += [noise_text(record["noise"])] * bool(record["noise"])
    return "\n".join(lines)


def _work(arm: Arm, baseline: Run) -> float:
    """Returns the operations of a training, up to a factor that all arms share."""

    def batch(settings: TrainingSettings) -> int:
        usual = baseline.task.training.batch_tokens or 1
        return (settings.batch_size or settings.batch_tokens or usual) * settings.batches_per_update

    training = arm.resolved.task.training
    if training.steps is not None:
        return arm.counted["flops"] * training.steps * batch(training)
    epochs = training.epochs or baseline.steps / baseline.epoch_steps
    return arm.counted["flops"] * epochs * baseline.epoch_steps * batch(baseline.task.training)


def _bytes(arm: Arm, keep: Keep) -> float:
    all_of_it = WEIGHT + CHECKPOINT * arm.resolved.task.training.keep_checkpoints
    return arm.counted["parameters"] * {"results": 0, "best": WEIGHT, "all": all_of_it}[keep]


def _timed(arm: Arm, threads: int) -> tuple[float, Run]:
    """Returns the seconds of an update of an arm, and the run that made it and ended then."""
    watch, before = _Stopwatch(), torch.get_num_threads()
    settings = ["training.evaluate_every=1000000000", "evaluation.samples=0", "evaluation.limit=1"]
    torch.set_num_threads(threads)
    try:
        with TemporaryDirectory(prefix="plugformer-") as folder, suppress(_EnoughError):
            train(
                written(arm.resolved.task),
                overrides=settings,
                out=Path(folder, "run"),
                registry=arm.resolved.registry,
                callbacks=[watch],
                notify=lambda _: None,
            )
    finally:
        torch.set_num_threads(before)
    return watch.seconds, watch.run


class _EnoughError(Exception):
    """Ends a training that has been timed."""


class _Stopwatch:
    """Times the updates after the first one, or that one if there is no other, and ends the training."""

    @hookimpl
    def run_started(self, run: Run) -> None:
        self.run = run
        self._last = min(1 + TIMED, run.steps)
        self._begun = now()

    @hookimpl
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        if update.step == self._last:
            self.seconds = (now() - self._begun) / max(self._last - 1, 1)
            raise _EnoughError
        if update.step == 1:
            self._begun = now()


def _duration(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 600 * 60 else f"{seconds / 3600:,.0f} h"


def _size(number: float) -> str:
    return f"{number / 1e6:.3g} MB" if number < 1e9 else f"{number / 1e9:.3g} GB"
