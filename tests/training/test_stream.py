"""Batches are prepared ahead by a thread; nothing but time shows it."""

import threading

import pytest
from tests.batches import pairs

from plugformer.configuration.task import TrainingSettings
from plugformer.data import Ladder, PlannedBatch
from plugformer.errors import DataError
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.training.stream import CountedBatch, PreparedBatches


def counted(batch):
    """Notes the thread as the only target."""
    return CountedBatch(batch, threading.current_thread().name, 1)


class Split:
    """Notes what is asked for, by whom; one row is malformed."""

    lengths = None

    def __init__(self):
        self.asked = []

    def batch(self, rows, lengths, epoch):
        self.asked.append((rows, lengths, epoch, threading.current_thread().name))
        if rows == [2]:
            raise DataError("row 2 is malformed")
        return pairs([[4, 5]], [[6]], rows)


@pytest.fixture
def stream():
    batches = [PlannedBatch([number], [3, 4]) for number in range(3)]
    made = PreparedBatches(Split(), lambda epoch: batches, TrainingSettings(seed=7))
    yield made
    made.close()


def test_the_place_is_that_after_the_batches_that_are_trained_on(stream):
    progress = TrainingProgress()
    (first,) = stream.next(progress, counted)
    assert (first.batch.rows, first.dummy) == ([0], False)
    assert first.targets.startswith("batches")
    stream._ahead.result()
    assert (progress.epoch, progress.batch) == (0, 1)
    asked = [([0], [3, 4], (7, 0)), ([1], [3, 4], (7, 0))]
    assert [tuple(given) for *given, _ in stream._examples.asked] == asked


def test_an_error_belongs_to_the_update_that_needs_the_batch(stream):
    progress = TrainingProgress()
    assert [stream.next(progress, counted)[0].batch.rows for _ in range(2)] == [[0], [1]]
    with pytest.raises(DataError, match="row 2"):
        stream.next(progress, counted)
    assert progress.batch == 2


def test_the_thread_ends(stream):
    def running():
        return sum(thread.name.startswith("batches") for thread in threading.enumerate())

    before = running()
    stream.next(TrainingProgress(), counted)
    assert running() == before + 1
    stream.close()
    assert running() == before


def test_an_epoch_is_put_in_order_once(train_tiny, tmp_path, monkeypatch):
    """Both to count its batches and to train on them: of a million examples it takes seconds."""
    epochs = []
    batches = Ladder.batches

    def counted(*arguments):
        epochs.append(arguments[-1])
        return batches(*arguments)

    monkeypatch.setattr(Ladder, "batches", counted)
    train_tiny(tmp_path / "run", "training.batch_size=null", "training.batch_tokens=256")
    assert epochs == sorted(set(epochs))
    assert epochs
