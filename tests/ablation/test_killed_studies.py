"""Studies that are killed and begun again end as those that were not."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from tests.ablation.studies import options
from tests.forking import Forked

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="processes are found by their session")

MEASURED = ("peak_memory_mb", "seconds", "directory")


def begin(out):
    swap = ("--swap", "model.attention=[mha, gqa]", "--seeds", "2", "--workers", "2", "--no-costs")
    longer = options("training.steps=100", "training.evaluate_every=10")
    command = ["-m", "plugformer", "ablate", "dates", *swap, *longer, "--out", str(out)]
    return Forked(command, own_session=True)


def ends_well(process):
    messages = process.communicate()[1]
    assert process.returncode in (0, 3), messages  # two seeds decide nothing


def table(out):
    cells = [json.loads(file.read_text()) for file in sorted(out.glob("cells/*/cell.json"))]
    return [{key: value for key, value in cell.items() if key not in MEASURED} for cell in cells]


def finished(out):
    return {file: file.stat().st_mtime_ns for file in out.glob("cells/*/cell.json")}


def kill_all(process):
    """Kills a study with its workers, which are in its session though not in its group."""
    own = subprocess.run(["ps", "-eo", "pid,sid"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    for line in own.splitlines()[1:]:
        pid, session = map(int, line.split())
        if session == process.pid:
            os.kill(pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A study, and the seconds that it took."""
    out, started = tmp_path_factory.mktemp("studies") / "uninterrupted", time.monotonic()
    ends_well(begin(out))
    return out, time.monotonic() - started


@pytest.mark.long
@pytest.mark.parametrize(
    ("whole", "kills"), [(True, 3), (False, 1)], ids=["all processes", "the parent alone"]
)
def test_killed_at_random_moments_a_study_ends_as_if_it_had_not_been(whole, kills, uninterrupted, tmp_path):
    (whole_study, seconds), killed = uninterrupted, tmp_path / "killed"
    for _ in range(kills):
        before = finished(killed)
        process = begin(killed)
        deadline = time.monotonic() + 60
        while not list(killed.glob("cells/*/metrics.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(random.SystemRandom().uniform(0, 1.5 * seconds / kills))
        if whole:
            kill_all(process)
        else:
            process.kill()
            process.communicate()
        assert before.items() <= finished(killed).items()
    before = finished(killed)
    ends_well(begin(killed))
    assert before.items() <= finished(killed).items()
    assert table(killed) == table(whole_study)
