"""Claims of cells by processes that share nothing but a folder."""

import json
import os
import subprocess
import sys
import threading

import pytest

from plugformer_ablation.running import claims
from plugformer_ablation.running.claims import STALE, alone, attempts, state_of, take


@pytest.fixture
def cell(tmp_path):
    return tmp_path / "baseline-seed-1-abc"


def written(cell, number=1, *, silent=0.0, **facts):
    """Writes the claim of another process, which gave its last sign of life some seconds ago."""
    path = cell.with_name(f"{cell.name}.claim-{number}")
    path.write_text(json.dumps({"host": "elsewhere", "machine": "another", "process": 1, **facts}))
    then = path.stat().st_mtime - silent
    os.utime(path, (then, then))
    return path


def ended():
    """Returns the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("lost", [0, 1])
def test_one_of_many_takes_a_cell_also_a_lost_one(cell, lost):
    for number in range(lost):
        written(cell, number + 1, silent=STALE + 1)
    taken, together = [], threading.Barrier(16)

    def attempt():
        together.wait()
        taken.append(take(cell))

    threads = [threading.Thread(target=attempt) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (claim,) = filter(None, taken)
    assert len(attempts(cell)) == lost + 1
    claim.settle()
    assert not attempts(cell)


@pytest.mark.parametrize(
    ("silent", "facts", "state"),
    [
        (STALE - 30, {}, "running"),
        (STALE + 30, {}, "lost"),
        (0, {"machine": claims._machine(), "process": os.getpid()}, "running"),
        (0, {"machine": claims._machine(), "process": ended()}, "lost"),
        (0, {"process": ended()}, "running"),
        (STALE + 30, {"released": True}, "waiting"),
        (STALE + 30, {"failure": "no memory"}, "failed"),
    ],
)
def test_silence_is_told_from_work(cell, silent, facts, state):
    written(cell, silent=silent, **facts)
    assert state_of(cell)[0] == state
    assert (take(cell) is None) is (state in ("running", "failed"))


def test_who_was_slow_does_not_take_over_from_who_was_not(cell):
    """It has seen the lost claim, and meanwhile another has taken the cell, and left it to a third one."""
    written(cell, silent=STALE + 1)
    other = take(cell)
    assert take(cell) is None
    other.note(released=True)
    assert take(cell) is not None
    assert len(attempts(cell)) == 3


def test_who_was_taken_over_notices_and_writes_nothing(cell, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT", 0.01)
    with take(cell) as claim:
        other = written(cell, 2)
        claim._thread.join(60)
        assert claim.superseded
    before = [path.read_bytes() for path in attempts(cell)]
    claim.note(released=True)
    assert [path.read_bytes() for path in (*attempts(cell)[:1], other)] == before


def test_signs_of_life_say_how_far_it_is(cell, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT", 0.01)
    with take(cell) as claim:
        os.utime(attempts(cell)[-1], (0, 0))
        claim.advance(5, 9)
        while (found := state_of(cell))[1].get("step") != 5 or found[1]["silent_seconds"] > 60:
            assert claim._thread.is_alive()
    assert state_of(cell)[0] == "running"


def test_what_one_does_alone_others_do_after_it(cell, monkeypatch):
    pauses = []
    monkeypatch.setattr(claims.time, "sleep", lambda seconds: pauses.append(first.settle()))
    first = take(cell)
    with alone(cell):
        assert len(pauses) == 1
        assert take(cell) is None
    assert not attempts(cell)


def test_a_settled_cell_is_not_taken(cell):
    cell.mkdir()
    (cell / "cell.json").write_text("{}")
    assert take(cell) is None
    assert not attempts(cell)


@pytest.mark.parametrize(
    ("checkpoints", "now", "hopeless"),
    [
        (("", ""), "", True),
        (("", "step-5"), "step-5", False),
        (("", ""), "step-5", False),
        (("",), "", False),
    ],
)
def test_a_cell_that_is_lost_twice_without_progress_is_hopeless(cell, checkpoints, now, hopeless):
    for number, checkpoint in enumerate(checkpoints, start=1):
        written(cell, number, silent=STALE + 1, checkpoint=checkpoint)
    if now:
        (cell / "checkpoints" / now).mkdir(parents=True)
    assert take(cell).hopeless is hopeless
