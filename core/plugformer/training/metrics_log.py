"""The log of a run: one JSON line for every so many updates and for every evaluation."""

from typing import Any

from plugformer.hooks.specification import EvaluationResult, Run, Update, hookimpl, must_not_fail
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.runs.directory import RunDirectory

_SUMS = ("loss", "targets", "tokens", "seconds")


class MetricsLog:
    """Writes `metrics.jsonl`, before any other observer can stop the run.

    Lines have "event": "training" (loss and tokens/s since the last such line), "validation" or "average".
    """

    def __init__(self) -> None:
        self._progress = TrainingProgress()
        self._last: Update | None = None
        self._targets = 0  # of updates whose loss is not known yet

    def resume_from(self, progress: TrainingProgress) -> None:
        """Continues the sums of a checkpoint, which may have been saved between two lines."""
        self._progress = progress

    @hookimpl(tryfirst=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Adds up updates, and writes a line every `training.log_every`."""
        sums = self._progress.unlogged = self._progress.unlogged or dict.fromkeys(_SUMS, 0.0)
        if not update.left_out:
            self._targets += update.targets
            if update.loss is not None:
                sums["loss"] += update.loss * self._targets
                sums["targets"] += self._targets
                self._targets = 0
        sums["tokens"] += update.tokens
        sums["seconds"] += update.seconds
        self._last = update
        if update.step % run.task.training.log_every == 0 or update.step == run.steps:
            self._write(run, update)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def evaluation_ended(self, run: Run, evaluation: EvaluationResult) -> None:
        """Writes a line about the validation split; before the last one, about unlogged updates."""
        if evaluation.final and self._progress.unlogged and self._last is not None:
            self._write(run, self._last)
        record = {"event": "validation", **_figures(evaluation), "best": evaluation.best, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """Writes a line about the average, with the single best."""
        parts = {"steps": steps, "single_best": {run.task.training.monitor: single_best}}
        record = {"event": "average", **_figures(evaluation), **parts, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    def _write(self, run: Run, update: Update) -> None:
        sums = self._progress.unlogged
        record = {
            "event": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums["loss"] / sums["targets"] if sums["targets"] else None,
            **_accuracy(update),
            "learning_rate": update.learning_rate,
            "tokens_per_second": round(sums["tokens"] / sums["seconds"], 1),
        }
        if run.task.training.on_nonfinite == "skip":
            record["skipped"] = update.skipped
        RunDirectory(run.directory).log(record)
        self._progress.unlogged = {}


def _figures(evaluation: EvaluationResult) -> dict[str, Any]:
    figures = {"step": evaluation.step, "loss": evaluation.loss}
    return {**figures, **_accuracy(evaluation), **evaluation.metrics}


def _accuracy(measured: Update | EvaluationResult) -> dict[str, float]:
    """Returns the share of right outputs, where one can be right or wrong."""
    return {} if measured.token_accuracy is None else {"token_accuracy": measured.token_accuracy}


def _time(evaluation: EvaluationResult) -> dict[str, float]:
    return {"seconds": round(evaluation.seconds, 3)}
