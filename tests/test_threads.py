"""OpenMP's idle threads spin briefly: set before torch is imported, and the user's settings are kept."""

import os
import subprocess
import sys

import pytest

from plugformer.lazy import limit_spinning


@pytest.mark.parametrize(
    ("load", "set_by_user", "expected"),
    [
        (0.1, {}, {"GOMP_SPINCOUNT": "20000", "KMP_BLOCKTIME": "1"}),
        (3.0, {}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        (0.1, {"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7", "KMP_BLOCKTIME": "1"}),
        (3.0, {"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
    ],
)
def test_threads_spin_on_an_idle_machine_and_settings_are_kept(monkeypatch, load, set_by_user, expected):
    monkeypatch.setattr(os, "environ", dict(set_by_user))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("plugformer.lazy._running_threads", lambda: load)
    limit_spinning()
    assert os.environ == expected


@pytest.mark.parametrize(
    "start", ["import plugformer; plugformer.load", "import plugformer.__main__ as m; m.main()"]
)
def test_it_is_set_before_torch_is_imported(start):
    """A finder that ends the process at the import of torch shows the environment at that moment."""
    code = f"""
import os, sys
for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
    os.environ.pop(name, None)
import plugformer.lazy
plugformer.lazy._running_threads = lambda: 0
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Finder())
sys.argv = ["plugformer", "predict", "nowhere", "text"]
{start}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20000"]
