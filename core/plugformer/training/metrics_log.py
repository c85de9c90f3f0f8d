"""The log of a training: `metrics.jsonl`."""

from typing import Any

from plugformer.hooks import EvaluationResult, Run, Update, hookimpl, must_not_fail
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.runs.directory import RunDirectory


class MetricsLog:
    """Writes `metrics.jsonl`, before any other callback can stop the run.

    Lines have "event": "training" (loss and tokens/s since the last such line), "validation" or "average".

    Args:
        progress: Of the training; it keeps the sums, since a checkpoint may be saved between two lines.
    """

    def __init__(self, progress: TrainingProgress) -> None:
        self._progress = progress
        self._last: Update | None = None
        self._targets = 0  # of updates whose loss is not known yet

    @hookimpl(tryfirst=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Adds up updates, and writes a line every `training.log_every`."""
        names = ("loss", "targets", "tokens", "seconds")
        sums = self._progress.unlogged = self._progress.unlogged or dict.fromkeys(names, 0.0)
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
        RunDirectory(run.directory).log(_record("validation", evaluation, best=evaluation.best))

    @hookimpl(tryfirst=True)
    @must_not_fail
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """Writes a line about the average, with the best single evaluation."""
        best = {run.task.monitor: single_best}
        RunDirectory(run.directory).log(_record("average", evaluation, steps=steps, single_best=best))

    def _write(self, run: Run, update: Update) -> None:
        sums = self._progress.unlogged
        record = {
            "event": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums["loss"] / sums["targets"] if sums["targets"] else None,
            **_accuracy(update),
            "learning_rate": update.learning_rate,
            **({"learning_rates": update.learning_rates} if update.learning_rates else {}),
            "tokens_per_second": round(sums["tokens"] / sums["seconds"], 1),
        }
        if run.task.training.on_nonfinite == "skip":
            record["skipped"] = update.skipped
        RunDirectory(run.directory).log(record)
        self._progress.unlogged = {}


def _record(event: str, evaluation: EvaluationResult, **details: Any) -> dict[str, Any]:
    figures = {"step": evaluation.step, "loss": evaluation.loss, **_accuracy(evaluation)}
    seconds = round(evaluation.seconds, 3)
    return {"event": event, **figures, **evaluation.metrics, **details, "seconds": seconds}


def _accuracy(measured: Update | EvaluationResult) -> dict[str, float]:
    """Returns the share of right outputs, where one can be right or wrong."""
    return {} if measured.token_accuracy is None else {"token_accuracy": measured.token_accuracy}
