"""OpenMP's idle threads spin briefly: set before torch is imported, and the user's settings are kept."""

import os
import subprocess
import sys

import pytest

from plugformer.lazy import limit_spinning


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


def test_it_is_set_before_torch_is_imported():
    names = "{'GOMP_SPINCOUNT', 'OMP_WAIT_POLICY'}"
    code = f"import os, sys, plugformer; print({names} & os.environ.keys(), 'torch' in sys.modules)"
    free = {name: value for name, value in os.environ.items() if name[:5] not in ("GOMP_", "OMP_W")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True)
    assert done.stdout.split() in (["{'GOMP_SPINCOUNT'}", "False"], ["{'OMP_WAIT_POLICY'}", "False"])
