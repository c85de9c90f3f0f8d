"""What a study has spent: how many trainings, and how long they computed."""

from collections.abc import Sequence

from plugformer_ablation.judging.records import Spent
from plugformer_ablation.judging.results import CellResult, Record


def spent(cells: Sequence[CellResult], trials: Sequence[Record], preparation: Sequence[Record]) -> Spent:
    """Returns the number of `trainings`, of `trials` and of those in `preparation`, and the seconds of each.

    A trial that decides is a training of the verdict, and counts as that alone. Seconds are the wall time of
    all updates, on the device of a training: a GPU, or its share of the cores. Trainings that failed,
    or ended because a number was not finite, count without their time, which nobody has recorded.
    """
    trials = [trial for trial in trials if not trial.get("decides")]
    return {
        "trainings": len(cells),
        "training_seconds": sum(cell.seconds for cell in cells),
        "trials": len(trials),
        "trial_seconds": sum(trial["seconds"] for trial in trials),
        "preparation": len(preparation),
        "preparation_seconds": sum(training["seconds"] for training in preparation),
    }


def price(record: Spent) -> str:
    """Returns what was spent, in words."""
    words = f"{_duration(record['training_seconds'])} of updates in {record['trainings']:,} trainings"
    if record["trials"]:
        words += f", and {_duration(record['trial_seconds'])} in {record['trials']:,} trials of tuning"
    if record["preparation"]:
        words += (
            f", and {_duration(record['preparation_seconds'])} in {record['preparation']:,} trainings for "
        )
        words += "screening or for trials to start from"
    return words


def _duration(seconds: float) -> str:
    if seconds < 360:
        return f"{seconds:.3g} device-seconds"
    return f"{seconds / 3600:,.{2 if seconds < 36_000 else 0}f} device-hours"
