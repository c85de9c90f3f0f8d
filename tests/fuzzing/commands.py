"""Runs commands on hostile input, each in a process of its own, and reports those that do not end well.

    python tests/fuzzing/commands.py FOLDER CASES [SEED]

Ending well is: a documented exit status, no traceback, no hang, nothing executed, and nothing opened for
writing outside of the case's folder. It is a program of its own because a process that has computed with
PyTorch must not fork. Prints JSON; how many ended in which way is also in FOLDER/ended.json as it goes on,
and what ended badly in FOLDER/bad.jsonl as it comes.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import torch
import yaml

SETTINGS = (
    "data.size=40",
    "model.width=8",
    "model.heads=2",
    "model.layers=1",
    "model.ffn_width=16",
    "model.max_length=40",
    "training.batch_size=8",
    "training.steps=2",
    "training.evaluate_every=2",
    "decoding.max_length=4",
    "evaluation.limit=2",
    "evaluation.samples=1",
)
TASK = """\
type: sequence-to-sequence
description: Add.
data: {name: table, files: {train: pairs.tsv}, split: {validation: 4, test: 4}}
tokenizer: characters
model: {architecture: encoder-decoder, width: 8, heads: 2, layers: 1, max_length: 16, head: language_model}
training: {steps: 2, batch_size: 8, evaluate_every: 2}
evaluation: {metrics: [exact_match], limit: 2, samples: 1}
"""
LABELS = """\
type: classification
description: Sort.
data:
  name: table
  files: {train: rows.csv}
  columns: {text: words, label: class}
  split: {validation: 4, test: 4}
tokenizer: words
model: {architecture: encoder-only, width: 8, heads: 2, layers: 1, max_length: 16, head: classifier}
training: {steps: 2, batch_size: 8, evaluate_every: 2}
evaluation: {metrics: [accuracy], limit: 2, samples: 1}
"""
STUDY = """\
study: small
task: sums.yaml
factors: {attention: {path: model.attention, values: [mha, mqa]}}
seeds: 1
metric: exact_match
"""
MANIFEST = """\
components:
  feed_forward:
    mine: {class: parts:Mine, summary: A part.}
hooks: []
"""
PART = """\
from plugformer.interfaces import FeedForward
class Mine(FeedForward):
    def __init__(self, model):
        super().__init__()
    def forward(self, x):
        return x
"""
NUMBERS = [
    "0", "-1", "1e999", ".nan", "-.inf", str(2**31), str(2**63), str(2**64), "1e-320", "1e39", "0.5",
]  # fmt: skip
WORDS = [
    "", "null", "true", "[]", "{}", "[1]", "{a: b}", "'a,b'", "\x1b[2J", "é", "中", "\u202e", "../../x",
    "loop", "~nobody/x", "a" * 100_000, "&a [*a]",
    "!!python/name:canary.Canary", "{name: canary}", "source+9999999999999", "a{99999999}", "(" * 2000,
]  # fmt: skip
BYTES = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\xe2\x80\xa8", b"\x80\x04K\x01.", b'"', b"'", b"\n",
    b"\t", b",", b"{", b"[" * 5000, b"9" * 5000, b"NaN", b"null", b"-1", b"1e999", b"\\ud800", b"\x1b[2J",
    b"true",
]  # fmt: skip
VARIABLES = [
    "PLUGFORMER_CACHE", "PLUGFORMER_REGISTRY", "PLUGFORMER_DATA", "PLUGFORMER_PLUGINS", "WORLD_SIZE",
    "RANK", "LOCAL_RANK", "COLUMNS", "OMP_NUM_THREADS", "XDG_CACHE_HOME", "HOME", "TMPDIR",
    "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "MASTER_PORT",
    "LANG",
]  # fmt: skip
FORBIDDEN = ("os.system", "os.exec", "pickle.find_class", "socket.connect")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SECONDS, MEMORY = 60, 12 * 2**30


def prepare(folder: Path) -> Path:
    """Makes what every case gets a copy of: tasks, data, a manifest, a study, runs and a cache."""
    whole = folder / "whole"
    whole.mkdir(parents=True)
    os.chdir(whole)
    Path("sums.yaml").write_text(TASK)
    Path("sort.yaml").write_text(LABELS)
    Path("study.yaml").write_text(STUDY)
    Path("registry.yaml").write_text(MANIFEST)
    Path("parts.py").write_text(PART)
    Path("canary.py").write_text("open('executed', 'w')\nclass Canary: pass\n")
    Path("pairs.tsv").write_text("source\ttarget\n" + "".join(f"{i}+{i}\t{2 * i}\n" for i in range(40)))
    Path("rows.csv").write_text("words,class\n" + "".join(f'"a {i}, b",{"xy"[i % 2]}\n' for i in range(40)))
    for arguments in (
        ["train", "dates", *settings(SETTINGS), "--out", "run"],
        ["train", "sums.yaml", "--out", "sums"],
        ["train", "sort.yaml", "--out", "sort"],
        ["ablate", "study.yaml", "--out", "studied", "--workers", "1"],
        ["info", "dates"],
        ["plot", "run"],
    ):
        status = forked(lambda arguments=arguments: command(arguments, "modules"))
        assert status == 0, (arguments, status)
        for name in Path("modules").read_text().split():
            with contextlib.suppress(Exception):
                importlib.import_module(name)  # once, not in every case
    Path("modules").unlink()
    Path("loop").symlink_to("loop")
    plugin = Path("site/evil-1.0.dist-info")
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (plugin / "entry_points.txt").write_text("[plugformer]\nevil = evil\n")
    Path("site/evil").mkdir()
    Path("site/evil/__init__.py").write_text("")
    Path("site/evil/registry.yaml").write_text(MANIFEST)
    return whole


def settings(values: tuple[str, ...] | list[str]) -> list[str]:
    return [part for value in values for part in ("--set", value)]


def command(arguments: list[str], modules: str | None = None) -> None:
    """Runs a command as the program does; ends this process with its status. Keeps what it has imported."""
    from plugformer.__main__ import main

    sys.argv = ["plugformer", *arguments]
    os.environ["PLUGFORMER_CACHE"] = os.environ.get("PLUGFORMER_CACHE", "cache")
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        status = 99
    if modules is not None:
        Path(modules).write_text("\n".join(name for name in sys.modules if name != "__main__"))
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    with contextlib.suppress(BaseException):
        sys.stderr.flush()
    os._exit(status)


def forked(function, seconds: float | None = None) -> int:
    """Returns how a function ends in another process; it is killed after some seconds."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        function()
        os._exit(0)
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG if deadline else 0)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1000


def keys(tree: object, path: str = "") -> list[str]:
    """Returns the paths of all values of a document."""
    if not isinstance(tree, dict):
        return [path]
    below = [key for name, value in tree.items() for key in keys(value, f"{path}.{name}".lstrip("."))]
    return below + ([path] if path else [])


def damage(chance: random.Random, content: bytes) -> bytes:
    """Returns content with some places cut out, doubled, flipped or replaced."""
    kind = chance.random()
    if kind < 0.03:
        return b""
    if kind < 0.06:
        return chance.randbytes(chance.randint(1, 200))
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(content))
        end = min(len(content), start + chance.choice([0, 0, 1, 1, 2, 8, 64, 10**6]))
        piece = chance.choice([*BYTES, content[start:end] * 2, chance.randbytes(3), b""])
        content = content[:start] + piece + content[end:]
    return content


def replaced(chance: random.Random, path: Path) -> str:
    """Puts something else where a file of the case is."""
    what = chance.choice(["damaged"] * 12 + ["missing", "folder", "loop", "outside"])
    content = path.read_bytes()
    if what == "damaged":
        path.write_bytes(damage(chance, content))
        return what
    path.unlink()
    match what:
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "outside":
            path.symlink_to(Path("..", "outside", "precious").absolute())
    return what


class Case:
    """Draws and prepares a case in the current folder: the arguments, the environment and a description."""

    def __init__(self, chance: random.Random, paths: list[str]) -> None:
        self.chance, self.paths = chance, paths
        self.environment: dict[str, str] = {}
        self.text = ""
        self.site = False
        scenarios = [
            self.setting,
            self.file,
            self.run,
            self.manifest,
            self.plugin,
            self.study,
            self.variable,
            self.texts,
            self.cache,
            self.folders,
            self.words,
        ]
        weights = [30, 20, 25, 8, 5, 1, 5, 8, 4, 4, 4]  # a study takes fifty times as long
        scenario = chance.choices(scenarios, weights)[0]
        self.name = scenario.__name__
        self.arguments: list[str] = []
        self.note = scenario() or ""

    def value(self) -> str:
        return self.chance.choice(NUMBERS + WORDS)

    def on_run(self, run: str) -> list[str]:
        text = "1+1" if run == "sums" else "May 1, 2001"
        return self.chance.choice(
            [
                ["predict", run, text, "--json"],
                ["predict", run, text, text, "--n-best", "2", "--set", "decoding.name=beam"],
                ["predict", run, text],
                ["evaluate", run],
                ["evaluate", run, "--split", "validation", "--json"],
                ["train", "--resume", "--out", run],
                ["info", "dates"],
                ["plot", run],
            ]
        )

    def setting(self) -> str:
        count = self.chance.choice([1, 1, 1, 2])
        drawn = [f"{self.chance.choice(self.paths)}={self.value()}" for _ in range(count)]
        verb = self.chance.choice(
            [
                ["validate", "dates"],
                ["validate", "dates"],
                ["train", "dates", "--out", "new"],
                ["info", "dates"],
            ]
        )
        self.arguments = [*verb, *settings(SETTINGS if verb[0] != "validate" else ()), *settings(drawn)]
        return str([value[:80] for value in drawn])

    def file(self) -> str:
        task, data = self.chance.choice([("sums.yaml", "pairs.tsv"), ("sort.yaml", "rows.csv")])
        which = self.chance.choice([task, data])
        what = replaced(self.chance, Path(which))
        self.arguments = self.chance.choice(
            [
                ["validate", task],
                ["train", task, "--out", "new"],
                ["train", task, "--out", "new", "--set", "data.bad_rows=skip"],
            ]
        )
        return f"{which} {what}"

    def run(self) -> str:
        run = self.chance.choice(["run", "sums", "sort"])
        files = sorted(path for path in Path(run).rglob("*") if path.is_file())
        notes = []
        for path in self.chance.sample(files, self.chance.choice([1, 1, 2])):
            notes.append(f"{path} {replaced(self.chance, path)}")
        self.arguments = self.on_run(run)
        return "; ".join(notes)

    def manifest(self) -> str:
        what = replaced(self.chance, Path(self.chance.choice(["registry.yaml", "registry.yaml", "parts.py"])))
        self.arguments = self.chance.choice(
            [
                ["list"],
                ["list", "--json"],
                ["validate", "sums.yaml", "--set", "model.feed_forward=mine"],
                ["info", "feed_forward/mine"],
                ["train", "sums.yaml", "--set", "model.feed_forward=mine", "--out", "new"],
            ]
        )
        self.arguments += ["--registry", "registry.yaml"]
        return what

    def plugin(self) -> str:
        path = self.chance.choice(sorted(Path("site").rglob("*.*")))
        what = replaced(self.chance, path) if path.is_file() else "whole"
        self.site = True
        self.arguments = self.chance.choice(
            [["--help"], ["list"], ["validate", "sums.yaml"], ["predict", "sums", "1+1"], ["list", "plugin"]]
        )
        return f"{path} {what}"

    def study(self) -> str:
        files = [Path("study.yaml")] * 3 + sorted(
            path for path in Path("studied").rglob("*") if path.is_file()
        )
        path = self.chance.choice(files)
        what = replaced(self.chance, path)
        self.arguments = ["ablate", "study.yaml", "--out", "studied", "--workers", "1"]
        return f"{path} {what}"

    def variable(self) -> str:
        name = self.chance.choice(VARIABLES)
        self.environment[name] = self.value()[:2000].replace("\0", "")
        self.arguments = self.chance.choice(
            [
                ["list"],
                ["train", "sums.yaml", "--out", "new"],
                ["predict", "sums", "1+1"],
                ["validate", "sums.yaml"],
                ["--help"],
            ]
        )
        return f"{name}={self.environment[name][:60]}"

    def texts(self) -> str:
        drawn = bytes(
            self.chance.choice(b"0123456789+ /,abz\n\r\t") for _ in range(self.chance.randint(0, 300))
        )
        Path("texts").write_bytes(damage(self.chance, drawn))
        self.arguments = [
            "predict",
            self.chance.choice(["run", "sums", "sort"]),
            "--file",
            "texts",
            *self.chance.choice([[], ["--json"], ["--n-best", "2"]]),
        ]
        return ""

    def cache(self) -> str:
        files = sorted(path for path in Path("cache").rglob("*") if path.is_file())
        path = self.chance.choice(files)
        what = replaced(self.chance, path)
        self.arguments = self.chance.choice(
            [["train", "sums.yaml", "--out", "new"], ["train", "sort.yaml", "--out", "new"]]
        )
        return f"{path} {what}"

    def folders(self) -> str:
        run = self.chance.choice(["run", "sums", "sort"])
        path = Path(run, self.chance.choice(["checkpoints", "plots", "candidates"]))
        if path.is_dir():
            shutil.rmtree(path)
        path.symlink_to(Path("..", "outside").absolute())
        self.arguments = self.on_run(run)
        return f"{path} -> outside"

    def words(self) -> str:
        verbs = [
            "train",
            "validate",
            "predict",
            "evaluate",
            "plot",
            "ablate",
            "check",
            "info",
            "list",
            "new",
            "schema",
            "--version",
            "nothing",
            "--help",
        ]
        rest = [
            *WORDS,
            *NUMBERS,
            "run",
            "sums.yaml",
            "--json",
            "--set",
            "--out",
            "dates",
            "attention/mha",
            "--split",
            "plugin",
            "task",
        ]
        self.arguments = [
            self.chance.choice(verbs),
            *(self.chance.choice(rest).replace("\0", "") for _ in range(self.chance.randint(0, 3))),
        ]
        if self.arguments[0] == "check" and len(self.arguments) == 1:
            self.arguments.append("norm/none")
        return ""


def inside(case: Case, folder: Path) -> None:
    """Runs a case with limits of memory and processor time; its output and its effects are kept in files."""
    own = [os.path.realpath(os.path.expanduser(value)) for value in case.environment.values() if value]  # noqa: PTH111 (raises nothing)
    allowed = (str(folder.resolve()), "/dev/", "/proc/", tempfile.gettempdir(), *own)

    def heard(event: str, arguments: tuple) -> None:
        # A study and its cells talk to each other; the names of months are pickled in Babel itself.
        ours = event == "pickle.find_class" and str(arguments[0]).startswith(("plugformer", "babel."))
        ours |= event == "socket.connect" and isinstance(arguments[1], str)
        if not ours and (event in FORBIDDEN or (event == "import" and arguments[0] == "canary")):
            os.write(3, f"forbidden: {event} {arguments}\n".encode(errors="replace"))
        if event == "open" and isinstance(arguments[0], str) and (arguments[2] or 0) & WRITING:
            path = os.path.realpath(arguments[0])
            if not path.startswith(allowed):
                os.write(3, f"forbidden: {event} {path}\n".encode(errors="replace"))

    with Path("output").open("wb") as output:
        os.dup2(output.fileno(), 2)
    with Path("answers").open("wb") as answers:
        os.dup2(answers.fileno(), 1)
    heard_file = os.open("heard", os.O_WRONLY | os.O_CREAT)
    os.dup2(heard_file, 3)
    os.close(0) if case.chance.random() < 0.02 else None
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(n, "wb", closefd=False), encoding="utf-8", write_through=True)
        for n in (1, 2)
    )
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 2))
    os.environ.update(case.environment)
    if case.site:
        sys.path.insert(0, str(Path("site").absolute()))
    sys.addaudithook(heard)
    command(case.arguments)


def main(folder: Path, cases: int, seed: int) -> None:
    """Runs the cases, and prints how many ended in which way, and those that ended badly."""
    torch.set_num_threads(1)
    os.environ.pop("PLUGFORMER_CACHE", None)  # each case has one of its own
    whole = prepare(folder)
    gc.collect()
    gc.freeze()  # what is imported stays shared with the processes of the cases: 6 % faster

    paths = keys(yaml.safe_load((whole / "run" / "task.yaml").read_text()))
    outside = folder / "outside"
    restore(outside)
    ended: Counter[str] = Counter()
    bad = []
    for number in range(cases):
        work = folder / "case"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(whole, work, symlinks=True)
        os.chdir(work)
        case = Case(random.Random(f"{seed} {number}"), paths)  # noqa: S311 (no secret)
        status = forked(partial(inside, case, work), SECONDS * 2)
        ended[f"{case.name}: {status}"] += 1
        (folder / "ended.json").write_text(json.dumps(ended))
        said = Path("output").read_bytes().decode(errors="replace") if Path("output").is_file() else ""
        if faults := faults_of(case, status, said, outside):
            record = {
                "case": number,
                "scenario": case.name,
                "note": case.note[:300],
                "arguments": [argument[:100] for argument in case.arguments if argument not in SETTINGS],
                "faults": faults,
                "said": said[-1500:],
            }
            bad.append(record)
            with (folder / "bad.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
    result = {"cases": cases, "ended": dict(sorted(ended.items())), "bad": bad}
    sys.__stdout__.write(json.dumps(result, indent=1))


def faults_of(case: Case, status: int, said: str, outside: Path) -> list[str]:
    """Returns what is wrong with the end of a case that ran in the current folder."""
    faults = []
    answering_no = status == 1 and case.arguments[0] in ("check", "list")
    if status not in (0, 2) and not answering_no:
        faults.append(f"status {status}")
    if "Traceback (most recent call last)" in said:
        faults.append("traceback")
    if "unexpected" in said and "traceback is in" in said:
        faults.append("caught by the last net")
    heard = Path("heard").read_text() if Path("heard").is_file() else ""
    if heard or Path("executed").exists():
        faults.append(heard or "executed")
    files = sorted(path.name for path in outside.iterdir())
    if files != ["precious"] or (outside / "precious").read_text() != "precious":
        faults.append("wrote outside")
        restore(outside)
    return faults


def restore(outside: Path) -> None:
    """Makes the folder that no case may change."""
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    (outside / "precious").write_text("precious")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
