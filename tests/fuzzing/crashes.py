"""Kills a training, a study or predictions again and again (SIGKILL), and compares the end with another's.

    python tests/fuzzing/crashes.py {training,study,prediction} FOLDER KILLS

What was killed is begun again by the same means. The kills come at a random operation on a file: before it
is opened, flushed, renamed or removed, or when half of it is written; every other one of a training or of
predictions comes at a random moment. Prints what happened as JSON. It is a program of its own because a
process that has computed with PyTorch must not fork.
"""

import io
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import torch

from plugformer.runs import store as weights
from plugformer.training.train import resume, train

SETTINGS = (
    "data.size=60",
    "model.width=16",
    "model.heads=2",
    "model.layers=1",
    "model.ffn_width=32",
    "model.dropout=0.2",
    "model.max_length=40",
    "training.batch_size=4",
    "training.batches_per_update=2",
    "training.evaluate_every=2",
    "training.log_every=3",
    "training.hooks=[{name: average_checkpoints, checkpoints: 3, of: best}]",
    "training.monitor=loss",
    "decoding.max_length=4",
    "evaluation.limit=2",
    "evaluation.samples=0",
)
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}
CHANCE = random.SystemRandom()


class Operations:
    """Counts what this process does to the files of a folder, and kills it at one of these operations."""

    def __init__(self, folder, fatal, journal):
        self.folder, self.fatal, self.journal = str(folder), fatal, journal
        self.count = 0
        self.fsync, self.save_file, self.write_text = os.fsync, weights.save_file, Path.write_text
        os.fsync, weights.save_file = self.flush, self.save
        Path.write_text = lambda *arguments, **options: self.write(*arguments, **options)
        sys.addaudithook(self.audit)

    def audit(self, event, arguments):
        if event == "open":
            _, mode, _ = arguments
            if not (isinstance(mode, str) and set(mode) & set("wax+")):
                return
        elif event not in CHANGES:
            return
        if str(arguments[0]).startswith(self.folder):
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

    def end(self):
        os.write(self.journal, f"{self.count}\n".encode())


class Output(io.RawIOBase):
    """A file that is written at its end; writing is an operation, of which half may happen."""

    def __init__(self, path, operations):
        self.file, self.operations = path.open("ab", buffering=0), operations

    def writable(self):
        return True

    def write(self, content):
        self.operations.count += 1
        if self.operations.count == self.operations.fatal:
            self.file.write(bytes(content)[: len(content) // 2])
            self.operations.count -= 1
            self.operations.happen("half of an answer")
        return self.file.write(content)


def forked(function, after=None):
    """Runs a function in another process, which is killed after some seconds; returns how it ended."""
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leg(run, steps, fatal, journal):
    """Trains, or goes on with the training, until it ends or comes to the fatal operation."""
    operations = Operations(run.parent, fatal, journal)
    os.environ["PLUGFORMER_CACHE"] = str(run.parent / "cache")
    if run.exists():
        resume(run, notify=str)
    else:
        train("dates", overrides=[*SETTINGS, f"training.steps={steps}"], out=run, notify=str)
    operations.end()


def study_leg(out, fatal, journal):
    """Runs a study, or goes on with it: settings of each arm are chosen, then each is trained twice."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "ablation"))
    import studies
    from rich.console import Console

    from plugformer.registry import Registry

    declared = studies.declared(tune=("training.optimizer.lr=[0.001, 0.002]",), seeds=2)
    operations = Operations(out, fatal, journal)
    os.environ["PLUGFORMER_CACHE"] = f"{out}-cache"
    studies.run(declared, out, Registry.discover(), Console(file=io.StringIO()))
    operations.end()


def prediction_leg(run, out, fatal, journal):
    """Answers texts; the answers go into a file."""
    from plugformer.__main__ import main

    texts = [f"May {1 + number % 28}, {2000 + number // 28 % 60}" for number in range(100)]
    operations = Operations(run.parent, fatal, journal)
    os.environ["PLUGFORMER_CACHE"] = str(run.parent / "cache")
    sys.stdout = io.TextIOWrapper(Output(out, operations), encoding="utf-8", write_through=True)
    sys.argv = ["plugformer", "predict", str(run), *texts, "--scores"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    operations.end()


def left(folder):
    """Returns what a run or a study has left: every file, without the times."""
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
        times = {"seconds", "tokens_per_second", "run", "directory", "peak_memory_mb"}
        return {key: without_times(item) for key, item in value.items() if key not in times}
    return value


def difference(one, other):
    """Returns the names of the files that differ between two folders."""
    mine, yours = left(one), left(other)
    return sorted(name for name in mine.keys() | yours.keys() if mine.get(name) != yours.get(name))


def training(folder, kills):
    """Kills one long training."""
    steps = 2 * kills
    reading, journal = os.pipe()
    whole, killed = (folder / name / "run" for name in ("whole", "killed"))
    for run in (whole, killed):
        run.parent.mkdir(parents=True)
    started = time.perf_counter()
    assert forked(lambda: leg(whole, steps, None, journal)) == 0
    seconds = time.perf_counter() - started
    total = int(os.read(reading, 100))
    moments, ended = Counter(), False
    while moments.total() < kills:
        timed = moments.total() % 2 and not ended
        fatal = None if timed else CHANCE.randint(1, 5 if ended else 2 * total // kills)
        after = CHANCE.uniform(0, 2 * seconds / kills) if timed else None
        status = forked(lambda fatal=fatal: leg(killed, steps, fatal, journal), after)
        assert status in (0, -signal.SIGKILL), status
        if status:
            moments["any moment" if timed else os.read(reading, 100).decode().strip()] += 1
        else:
            ended = True  # what is left to be killed is the final evaluation
            os.read(reading, 100)
    assert forked(lambda: leg(killed, steps, None, journal)) == 0
    return moments, {"operations": total, "files": len(left(whole)), "differing": difference(whole, killed)}


def study(folder, kills):
    """Kills studies, each until it ends; what a killed one had finished stays as it is."""
    reading, journal = os.pipe()
    whole, killed = folder / "whole", folder / "killed"
    assert forked(lambda: study_leg(whole, None, journal)) == 0
    total = int(os.read(reading, 100))
    moments, rounds, differing, lost = Counter(), 1, [], 0
    while True:
        fatal = CHANCE.randint(1, total // 5) if moments.total() < kills else None
        finished = done(killed)
        status = forked(partial(study_leg, killed, fatal, journal))
        assert status in (0, -signal.SIGKILL), status
        said = os.read(reading, 100).decode().strip()
        lost += not finished.items() <= done(killed).items()
        if status:
            moments[said] += 1
            continue
        differing += difference(whole, killed)
        if moments.total() >= kills:
            break
        shutil.rmtree(killed)
        rounds += 1
    report = {"operations": total, "studies": rounds, "lost": lost}
    return moments, {**report, "files": len(left(whole)), "differing": differing}


def done(out):
    """Returns the finished cells of a study, and when each was."""
    return {file: file.stat().st_mtime_ns for file in out.glob("cells/*/cell.json")}


def prediction(folder, kills):
    """Kills predictions: the answers so far are the first of those of one that was not; so are the next."""
    reading, journal = os.pipe()
    run, whole, killed = folder / "run", folder / "whole.txt", folder / "killed.txt"
    folder.mkdir(parents=True)
    assert forked(lambda: leg(run, 4, None, journal)) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    os.read(reading, 100)
    started = time.perf_counter()
    assert forked(lambda: prediction_leg(run, whole, None, journal)) == 0
    seconds = time.perf_counter() - started
    total, answers = int(os.read(reading, 100)), whole.read_bytes()
    moments, differing = Counter(), []
    while True:
        left_to_kill = moments.total() < kills
        timed = left_to_kill and moments.total() % 2
        fatal = CHANCE.randint(1, total) if left_to_kill and not timed else None
        after = CHANCE.uniform(0, seconds) if timed else None
        killed.unlink(missing_ok=True)
        status = forked(partial(prediction_leg, run, killed, fatal, journal), after)
        assert status in (0, -signal.SIGKILL), status
        found = killed.read_bytes() if killed.exists() else b""
        if not answers.startswith(found) or (status == 0 and found != answers):
            differing.append(f"answers after {len(found)} bytes")
        said = "" if timed and status else os.read(reading, 100).decode().strip()
        if status:
            moments[said or "any moment"] += 1
        elif not left_to_kill:
            break
    after = {
        path: path.read_bytes() for path in folder.rglob("*") if path.suffix != ".txt" and path.is_file()
    }
    differing += [str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    report = {"operations": total, "answers": answers.count(b"\n")}
    return moments, {**report, "files": len(after), "differing": differing}


def main(what, folder, kills):
    """Kills, and says what came of it."""
    moments, report = {"training": training, "study": study, "prediction": prediction}[what](folder, kills)
    sys.stdout.write(json.dumps({"kills": moments.total(), "moments": moments, **report}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute(), int(sys.argv[3]))
