"""Kills a training again and again (SIGKILL), and compares the end with that of another one.

    python tests/fuzzing/crashes.py FOLDER KILLS

A killed training is resumed. Half of the kills come at a random moment, the others at a random operation on a
file: before it is opened, flushed, renamed or removed, or when half of it is written. Prints the result as
JSON. It is a program of its own because a process that has computed with PyTorch must not fork.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import torch

from plugformer.runs import store as weights
from plugformer.training.train import resume, train

SETTINGS = (
    "data.size=60", "model.width=16", "model.heads=2", "model.layers=1", "model.ffn_width=32",
    "model.dropout=0.2", "model.max_length=40", "training.batch_size=4", "training.batches_per_update=2",
    "training.evaluate_every=2", "training.log_every=3",
    "training.hooks=[{name: average_checkpoints, checkpoints: 3, of: best}]",
    "training.monitor=loss", "decoding.max_length=4", "evaluation.limit=2", "evaluation.samples=0",
)  # fmt: skip
TIMES = {"seconds", "tokens_per_second", "run", "directory", "peak_memory_mb", "sha256"}
CHANCE = random.SystemRandom()


class Operations:
    """Counts the operations of this process on the files of a folder, and kills it at one of them."""

    def __init__(self, folder, fatal, journal):
        self.folder, self.fatal, self.journal = str(folder), fatal, journal
        self.count = 0
        self.fsync, self.save_file, self.write_text = os.fsync, weights.save_file, Path.write_text
        os.fsync, weights.save_file = self.flush, self.save
        Path.write_text = lambda *arguments, **options: self.write(*arguments, **options)
        sys.addaudithook(self.audit)

    def audit(self, event, arguments):
        is_writing = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        is_change = event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir")
        if (is_writing or is_change) and str(arguments[0]).startswith(self.folder):
            self.happen(event)

    def flush(self, descriptor):
        self.happen("fsync")
        self.fsync(descriptor)

    def save(self, tensors, path, metadata):
        self.save_file(tensors, path, metadata)
        self.happen("half of safetensors", path)

    def write(self, path, text, **options):
        self.write_text(path, text, **options)
        if str(path).startswith(self.folder):
            self.happen("half of a text", path)

    def happen(self, what, half=None):
        self.count += 1
        if self.count == self.fatal:
            if half is not None:
                os.truncate(half, half.stat().st_size // 2)
            os.write(self.journal, f"{what}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def forked(run, steps, fatal, journal, after=None):
    """Trains in another process, or resumes the training; returns its exit status.

    Args:
        run: The run directory.
        steps: All updates.
        fatal: The number of the operation at which it is killed.
        journal: Receives the fatal operation, or the number of operations.
        after: Seconds after which it is killed.
    """
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)
            operations = Operations(run.parent, fatal, journal)
            os.environ["PLUGFORMER_CACHE"] = str(run.parent / "cache")
            if run.exists():
                resume(run, notify=str)
            else:
                train("dates", overrides=[*SETTINGS, f"training.steps={steps}"], out=run, notify=str)
            os.write(journal, f"{operations.count}\n".encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(folder):
    """Returns every file of a run, without the times."""
    files = {}
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".jsonl"):
            text = path.read_text()
            values = [json.loads(line) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]
            files[str(path.relative_to(folder))] = without_times(values)
        elif path.is_file():
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def without_times(value):
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return value


def main(folder, kills):
    steps = 2 * kills
    reading, journal = os.pipe()
    whole, killed = (folder / name / "run" for name in ("whole", "killed"))
    for run in (whole, killed):
        run.parent.mkdir(parents=True)
    started = time.perf_counter()
    assert forked(whole, steps, None, journal) == 0
    seconds = time.perf_counter() - started
    total = int(os.read(reading, 100))
    moments, ended = Counter(), False
    while moments.total() < kills:
        timed = moments.total() % 2 and not ended
        fatal = None if timed else CHANCE.randint(1, 5 if ended else 2 * total // kills)
        after = CHANCE.uniform(0, 2 * seconds / kills) if timed else None
        status = forked(killed, steps, fatal, journal, after)
        assert status in (0, -signal.SIGKILL), status
        if status:
            moments["any moment" if timed else os.read(reading, 100).decode().strip()] += 1
        else:
            ended = True  # only the final evaluation can still be killed
            os.read(reading, 100)
    assert forked(killed, steps, None, journal) == 0
    expected, found = content(whole), content(killed)
    differing = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    result = {"kills": moments.total(), "moments": moments, "files": len(expected), "differing": differing}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]))
