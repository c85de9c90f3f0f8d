"""A run is trained by one process at a time: real ones, that end in any way."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.forking import Forked
from tests.training.processes import PATIENCE, train_command

from plugformer.errors import RunError
from plugformer.hooks import hookimpl
from plugformer.runs.directory import TRAINING_LOCK, training_lock
from plugformer.runs.loading import load
from plugformer.runs.store import replacing
from plugformer.training.train import resume


@pytest.fixture
def start(short_settings):
    """Starts `plugformer train` in a process of its own, which does not outlive the test."""
    started = []

    def begin(out, *settings):
        started.append(Forked(train_command(short_settings(*settings), out)))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_run_in_training_is_read_but_not_resumed(start, tmp_path):
    out = tmp_path / "run"
    process = start(out, "training.steps=100000")
    deadline = time.monotonic() + PATIENCE
    while not (out / "model.safetensors").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(RunError, match=r"run is being trained by another process: wait for its end, stop it"):
        resume(out, notify=str)
    assert len(load(out).predict(["May 1, 2001"])) == 1
    process.kill()
    process.wait()
    with training_lock(out), pytest.raises(RunError, match="trained by another"), training_lock(out):
        pass


def test_who_is_overtaken_while_making_a_run_is_refused(tmp_path):
    out = tmp_path / "run"
    overtaken = pytest.raises(RunError, match="run cannot be written: ")
    with overtaken, replacing(out) as slow:
        slow.mkdir()
        with replacing(out) as fast:
            fast.mkdir()
            (fast / "task.yaml").write_text("fast")
        (slow / "task.yaml").write_text("slow")
    assert (out / "task.yaml").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [out]


def test_a_lock_elsewhere_is_not_followed(run_copy, tmp_path):
    (run_copy / TRAINING_LOCK).unlink()
    (run_copy / TRAINING_LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"\.training\.lock is a symbolic link"):
        resume(run_copy, notify=str)
    assert not (tmp_path / "elsewhere").exists()


class Other:
    """Begins another training from within one, in a thread of its own or not."""

    def __init__(self, begin):
        self.begin, self.ended = begin, []

    @hookimpl
    def run_started(self):
        with ThreadPoolExecutor() as pool:
            self.error = pool.submit(self.begin).exception()
        self.ended.append(self.begin())


def test_another_thread_would_draw_from_the_same_generators(train_tiny, tmp_path):
    other = Other(lambda: train_tiny(tmp_path / "other", "training.steps=1"))
    train_tiny(tmp_path / "run", "training.steps=1", callbacks=[other])
    assert "another thread of this process is training" in str(other.error)
    assert [report.run.name for report in other.ended] == ["other"]
    with ThreadPoolExecutor() as pool:
        assert pool.submit(resume, tmp_path / "run", notify=str).result().report.split == "test"
