"""Ctrl-C in the terminal of a launcher, which reaches all of its processes, and which it passes on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.training.processes import PATIENCE, free_port

from plugformer.runs.directory import RunDirectory

LAUNCH = ["--nproc_per_node", "2", "--master_port"]

LISTEN = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
START = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.mark.long
def test_interrupting_a_launcher_saves(short_settings, tmp_path):
    out = tmp_path / "run"
    chosen = [word for each in short_settings("training.steps=100000") for word in ("--set", each)]
    start = [Path(sys.executable).with_name("torchrun"), *LAUNCH, free_port()]
    command = [*start, "-m", "plugformer", "train", "dates", *chosen, "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN + START, *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not (out / "model.safetensors").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, messages = process.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (1, 130)  # torchrun ends with a traceback of its own, and with 1
    assert messages.count("Interrupted at step") == 1, messages
    assert "InterruptedRunError" not in messages
    assert list(RunDirectory.open(out).checkpoints.iterdir())
