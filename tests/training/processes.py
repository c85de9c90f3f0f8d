"""Several processes that train one model on the CPU: starting them, and what they leave behind."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.forking import Forked

from plugformer.runs.store import load_tensors

PATIENCE = 300
"""Seconds after which something hangs: far more than it takes, also on a machine with other work."""

LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port():
    """Returns a port that nothing listens at.

    It is not one of those that the system hands out by itself: whatever is started meanwhile, a process that
    needs seconds to start still finds it free.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return str(port)


@dataclass
class Ended:
    status: int
    output: str
    messages: str


def begun(arguments, environment):
    """Starts Python, as users do."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def launched(count, *command, start=Forked):
    """Starts processes as torchrun does, which itself would take as long again to start."""
    port = free_port()
    processes = []
    for rank in range(count):
        values = (str(rank), str(rank), str(count), str(count), "127.0.0.1", port)
        processes.append(start(command, dict(zip(LAUNCHED, values, strict=True))))
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def ends(processes):
    found = [process.communicate(timeout=PATIENCE) for process in processes]
    return [Ended(each.returncode, *texts) for each, texts in zip(processes, found, strict=True)]


def train_command(settings, out, *arguments):
    chosen = [word for setting in settings for word in ("--set", setting)]
    return ["-m", "plugformer", "train", "dates", *chosen, "--out", str(out), *arguments]


def interrupted_after(step, folder):
    """Returns arguments of a command whose main process gets a signal after an update."""
    name = f"interrupting_after_{step}"
    (folder / f"{name}.py").write_text(
        "import signal\nfrom plugformer.hooks import hookimpl\n\n@hookimpl\ndef step_ended(update):\n"
        f"    if update.step == {step}:\n        signal.raise_signal(signal.SIGTERM)\n"
    )
    (folder / f"{name}.yaml").write_text(f"callbacks: [{name}]\n")
    return ["--registry", str(folder / f"{name}.yaml")]


def lines(out):
    log = out / "metrics.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def wait_for(out, step):
    """Returns when a run has logged an update."""
    deadline = time.monotonic() + PATIENCE
    while not any(line["step"] >= step for line in lines(out)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checkpoint(out):
    (last,) = sorted((out / "checkpoints").iterdir())[-1:]
    return {**load_tensors(last / "model.safetensors"), **load_tensors(last / "training.safetensors")}


def differences(one, other):
    """Returns the largest difference between the numbers of two runs, those of generators left out."""
    mine, yours = checkpoint(one), checkpoint(other)
    names = [name for name in mine if "generators/" not in name]
    assert names == [name for name in yours if "generators/" not in name]
    return max((mine[name].double() - yours[name].double()).abs().max().item() for name in names)
