"""The log of a run: one JSON line for every so many updates and for every evaluation."""

from typing import Any

from plugformer.hooks.specification import Evaluation, Run, Update, hookimpl, must_not_fail
from plugformer.runs.checkpoint import Progress, Unlogged
from plugformer.runs.directory import RunDirectory


class MetricsLog:
    """Writes `metrics.jsonl`, before any other observer can stop the run.

    Lines have "event": "training" (loss and tokens/s since the last such line), "validation" or "average".
    """

    def __init__(self) -> None:
        self._progress = Progress()
        self._last: Update | None = None
        self._targets = 0  # of updates whose loss is not known yet

    def resume_from(self, progress: Progress) -> None:
        """Adds to its sums from now on; a checkpoint may have saved them in the middle of a line."""
        self._progress = progress

    @hookimpl(tryfirst=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Adds up updates, and writes a line every `training.log_every`."""
        sums = self._progress.unlogged
        if not update.left_out:
            self._targets += update.targets
            if update.loss is not None:
                sums.loss += update.loss * self._targets
                sums.targets += self._targets
                self._targets = 0
        sums.tokens += update.tokens
        sums.seconds += update.seconds
        self._last = update
        if update.step % run.task.training.log_every == 0 or update.step == run.steps:
            self._write(run, update)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def evaluation_ended(self, run: Run, evaluation: Evaluation) -> None:
        """Writes a line about the validation split; before the last one, what updates are not logged yet."""
        if evaluation.final and self._progress.unlogged.tokens and self._last is not None:
            self._write(run, self._last)
        record = {"event": "validation", **_figures(evaluation), "best": evaluation.best, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: Evaluation, single_best: float
    ) -> None:
        """Writes a line about the average, the single best beside it."""
        beside = {"steps": steps, "single_best": {run.task.training.monitor: single_best}}
        record = {"event": "average", **_figures(evaluation), **beside, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    def _write(self, run: Run, update: Update) -> None:
        sums = self._progress.unlogged
        record = {
            "event": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums.loss / sums.targets if sums.targets else None,
            **_accuracy(update),
            "learning_rate": update.learning_rate,
            "tokens_per_second": round(sums.tokens / sums.seconds, 1),
        }
        if run.task.training.not_finite == "skip":
            record["skipped"] = update.skipped
        RunDirectory(run.directory).log(record)
        self._progress.unlogged = Unlogged()


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    figures = {"step": evaluation.step, "loss": evaluation.loss}
    return {**figures, **_accuracy(evaluation), **evaluation.metrics}


def _accuracy(measured: Update | Evaluation) -> dict[str, float]:
    """Returns the share of right outputs, where one can be right or wrong."""
    return {} if measured.token_accuracy is None else {"token_accuracy": measured.token_accuracy}


def _time(evaluation: Evaluation) -> dict[str, float]:
    return {"seconds": round(evaluation.seconds, 3)}
