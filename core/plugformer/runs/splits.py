"""The splits of a run's own data, read again."""

from collections.abc import Callable

from plugformer.data.encoding import EncodedSplit
from plugformer.data.preparation import prepare
from plugformer.data.prepared_cache import missing_files
from plugformer.data.processor import Processor
from plugformer.errors import DataError, nearest
from plugformer.experiment import Experiment


def read_split(
    name: str, experiment: Experiment, processor: Processor, notify: Callable[[str], None]
) -> EncodedSplit:
    """Returns a split of the data that a run was trained with.

    Args:
        name: Of the split.
        experiment: Of the run.
        processor: Of the run.
        notify: Receives messages for people: what was read, and what was left out.

    Raises:
        DataError: There is no such split, or the data cannot be read.
    """
    try:
        data = prepare(experiment, processor)
    except DataError as error:
        if moved := missing_files(experiment):
            raise DataError(
                f"{moved[0]}: no such file, which the run was trained with\n"
                "put it back, measure on other files with `plugformer evaluate RUN --data FILE`, or say "
                "where the data are now with --set data.OPTION=VALUE"
            ) from error
        raise
    if name not in data.splits:
        known = sorted(data.splits)
        raise DataError(f"unknown split {name!r}{nearest(name, known)}; known: {', '.join(known)}")
    for notice in (*data.notices, f"{name}: {data.lengths[name]}"):
        notify(notice)
    return data.splits[name]
