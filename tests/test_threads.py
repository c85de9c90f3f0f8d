"""How OpenMP's idle threads wait: set before torch is imported, and what the user has set is kept."""

import subprocess
import sys

import pytest

from plugformer import threads
from plugformer.threads import limit_spinning

SPINNING = {"GOMP_SPINCOUNT": "20000", "KMP_BLOCKTIME": "1"}
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Four cores, and a file that says how many threads run on them."""
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    path = tmp_path / "loadavg"

    def running(count):
        path.write_text(f"0.97 0.62 0.33 {count}/214 9041\n")
        return path

    return running


@pytest.mark.parametrize(
    ("running", "own", "then"),
    [
        (1, {}, SPINNING),  # this process
        (2, {}, PASSIVE),
        (5, {}, PASSIVE),
        (2, {"OMP_NUM_THREADS": "3"}, SPINNING),
        (3, {"OMP_NUM_THREADS": "3"}, PASSIVE),
        (9, {"OMP_NUM_THREADS": "1"}, PASSIVE),
        (2, {"OMP_NUM_THREADS": "3,1"}, PASSIVE),
        (2, {"OMP_NUM_THREADS": "16"}, PASSIVE),
    ],
)
def test_threads_spin_where_no_other_program_needs_their_cores(load, running, own, then):
    environment = dict(own)
    limit_spinning(environment, load(running))
    assert environment == own | then


def test_one_quiet_reading_is_enough_to_spin(load, monkeypatch):
    """A program that runs for a moment does not make the whole training wait passively."""
    path = load(4)
    monkeypatch.setattr(threads.time, "sleep", lambda seconds: load(1))
    environment = {}
    limit_spinning(environment, path)
    assert environment == SPINNING


@pytest.mark.parametrize("content", [None, "", "0.1 0.2", "0.1 0.2 0.3 many/7 1"])
def test_a_machine_that_does_not_say_what_runs_counts_as_idle(tmp_path, content):
    path = tmp_path / "loadavg"
    if content is not None:
        path.write_text(content)
    environment = {}
    limit_spinning(environment, path)
    assert environment == SPINNING


@pytest.mark.parametrize(
    ("own", "then"),
    [
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {}),
        ({"GOMP_SPINCOUNT": "7"}, {"KMP_BLOCKTIME": "1"}),
        ({"KMP_BLOCKTIME": "infinite"}, {"GOMP_SPINCOUNT": "20000"}),
    ],
)
def test_what_the_user_has_set_is_kept(load, own, then):
    environment = dict(own)
    limit_spinning(environment, load(5))
    assert environment == own | then


@pytest.mark.parametrize(
    "start", ["import plugformer; plugformer.load", "import plugformer.__main__ as m; m.main()"]
)
def test_it_is_set_before_torch_is_imported(start):
    """A finder that fails for torch shows what the environment holds by then."""
    code = f"""
import os, sys
for variable in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
    os.environ.pop(variable, None)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY") or os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Finder())
sys.argv = ["plugformer", "predict", "nowhere", "text"]
{start}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() in (["20000"], ["PASSIVE"])
