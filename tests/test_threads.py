"""OpenMP's idle threads spin briefly while a command runs; the user's settings are kept."""

import os
import subprocess
import sys

import pytest

from plugformer.__main__ import limit_spinning


@pytest.mark.parametrize(
    ("load", "set_by_user", "expected"),
    [
        (0, {}, {"GOMP_SPINCOUNT": "20000", "KMP_BLOCKTIME": "1"}),
        (3, {}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        (0, {"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7", "KMP_BLOCKTIME": "1"}),
        (3, {"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
    ],
)
def test_threads_spin_on_an_idle_machine_and_settings_are_kept(monkeypatch, load, set_by_user, expected):
    monkeypatch.setattr(os, "environ", dict(set_by_user))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("pathlib.Path.read_text", lambda *_, **__: f"0 0 0 {load + 1}/99 1")
    limit_spinning()
    assert os.environ == expected


def test_the_program_sets_it_before_torch_is_imported_and_the_library_sets_nothing():
    code = """
import os, sys
before = dict(os.environ)
import plugformer
assert os.environ == before
sys.modules["plugformer_cli.main"] = sys  # it has no `main`, so that nothing is run
from plugformer.__main__ import main
try:
    main()
except AttributeError:
    print(*os.environ.keys() - before, "torch" in sys.modules)
"""
    free = {name: value for name, value in os.environ.items() if name[:4] not in ("GOMP", "OMP_", "KMP_")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True)
    assert {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & {*done.stdout.split()}
    assert done.stdout.split()[-1] == "False"
