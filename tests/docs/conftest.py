"""A page of the documentation as a script: its blocks are done in their order, in an empty folder.

A block with a title is a file: it is written, or compared with the file that is there. A `console` block is
typed: every command must succeed, and print the lines shown under it. A `python` block is run, in one session
for the page. A `yaml` block must be a sound task, manifest, or part of a task. Signatures are `py` blocks and
are not run.

Comments, which readers of the site do not see, say where a test departs from the page:

    <!-- test append: ARGUMENTS -->   given to every `plugformer train`, `ablate` and `info --data`, to cut
                                      them short; a `--set` here replaces the command's own of the same
                                      key; one that is resumed for more updates ends after six
    <!-- test absent: WORD -->        from here on, commands that have it are not typed: it is not installed
                                      or does not end; repeatable
    <!-- test first: COMMAND -->      run before the next block
    <!-- test install: FOLDER -->     the distribution in that folder is installed from here on, and no other
    <!-- test status: NUMBER -->      how the commands of the next block end, instead of 0
    <!-- test output: differs -->     what the next block prints is not compared: timings, scores, seeds
    <!-- test extends: FILE -->       what the next block, a part of a task, is a part of; else of `dates`
    <!-- test wrong: WHY -->          the next block's task is shown for its mistakes; it is only written
    <!-- test skip: REASON -->        the next block is not done
"""

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from plugformer.configuration import resolve
from plugformer.registry import Registry
from plugformer.registry.manifest import parse
from plugformer.validation import validate
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.reading import read_study
from plugformer_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
_FENCE = r'^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$'
_COMMENT = r"^<!-- test (?P<directive>\w+): (?P<value>.*?) -->$"
_PART = re.compile(f"{_FENCE}|{_COMMENT}", re.MULTILINE | re.DOTALL)
BASH = shutil.which("bash") or "bash"
_SHELL = re.compile(r"[|<>&;$`*]")
_LONGER = re.compile(r"( --resume .*--set training\.steps=)\d+")
_SETTING = re.compile(r" --set ([\w.]+)=\S+")
_MANIFEST = {"plugformer", "components", "tasks", "callbacks", "commands"}


@dataclass
class Page:
    """A page that is being done.

    Attributes:
        append: Arguments for trainings.
        absent: What commands that are not typed have.
        next: The directives for the next block, by name.
        names: What the page's Python session has defined.
    """

    append: str = ""
    absent: list[str] = field(default_factory=list)
    next: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)

    def do(self, text: str) -> int:
        """Does all blocks of a page; returns how many there were."""
        blocks = 0
        for match in _PART.finditer(text):
            if match["directive"]:
                self.direct(match["directive"], match["value"])
                continue
            if "skip" not in self.next:
                self.block(match["language"], match["title"], match["text"])
            self.next = {}
            blocks += 1
        return blocks

    def direct(self, name: str, value: str) -> None:
        """Takes note of a directive."""
        if name == "append":
            self.append = value
        elif name == "absent":
            self.absent.append(value)
        elif name == "first":
            self.run(value)
        elif name == "install":
            _install(Path(value))
        elif name in ("status", "output", "extends", "wrong", "skip"):
            self.next[name] = value
        else:
            raise ValueError(f"unknown directive: test {name}: {value}")

    def block(self, language: str, title: str | None, text: str) -> None:
        """Does one block."""
        if title is not None:
            _write(Path(title), text)
        if language == "console":
            self.console(text)
        elif language == "yaml" and "wrong" not in self.next:
            self.yaml(text, title)
        elif language == "python" and title is None:
            exec(compile(text, "block", "exec"), self.names)  # noqa: S102 (that is what the page tells its reader to do)
        elif language == "json":
            json.loads(text)

    def console(self, text: str) -> None:
        """Types the commands and compares what is shown under them."""
        for command, shown in _commands(text):
            if any(word in command for word in self.absent):
                continue
            status, printed = self.run(command)
            assert status == int(self.next.get("status", 0)), f"{command}: status {status}\n{printed}"
            if "output" not in self.next:
                missing = [line for line in shown if line != "..." and line not in printed.splitlines()]
                assert not missing, f"{command} does not print {missing}, but\n{printed}"

    def run(self, command: str) -> tuple[object, str]:
        """Runs a command: Plugformer's own in this process, which has torch already."""
        reads = command.startswith(("plugformer train", "plugformer ablate")) or command.endswith(" --data")
        if reads and "--resume" not in command:
            command = f"{self._without_replaced(command)} {self.append}"
        command = _LONGER.sub(r"\g<1>6", command)
        before, pipe, last = command.rpartition(" | ")
        own, into, file = last.partition(" > ")
        if not own.startswith("plugformer ") or _SHELL.search(own):
            done = subprocess.run([BASH, "-c", command], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr
        given = subprocess.run([BASH, "-c", before], capture_output=True, check=True).stdout if pipe else b""
        status, out, err = _run_here(shlex.split(own)[1:], given)
        if into:
            Path(file).write_text(out, encoding="utf-8")
        return status, out + err

    def _without_replaced(self, command: str) -> str:
        """Returns a command without settings that are appended: none may be given twice."""
        replaced = set(_SETTING.findall(f" {self.append}"))
        return _SETTING.sub(lambda found: "" if found[1] in replaced else found[0], command)

    def yaml(self, text: str, title: str | None) -> None:
        """Checks a task, a manifest, a study, or a part of a task."""
        keys = yaml.safe_load(text).keys()
        if keys & {"factors", "arms"}:
            resolve_arms(read_study(str(title)), Registry.discover())
            return
        if keys & _MANIFEST:
            assert parse(text.encode(), "block").problems == ()
            return
        file = Path(title or "block.yaml")
        if not keys & {"type", "extends"}:
            file = Path("part.yaml")
            text = f"extends: {self.next.get('extends', 'dates')}\n{text}"
        if title is None or file.name == "part.yaml":
            file.write_text(text, encoding="utf-8")
        validate(resolve(f"./{file}"), data=False)


_NUMBERS = count()


def _write(file: Path, text: str) -> None:
    if file.exists():
        assert file.read_text(encoding="utf-8").strip() == text.strip(), f"{file} and its block differ"
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _install(folder: Path) -> None:
    """Installs a distribution into this process, in the way of an editable install, and lets it be read."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = Path("site", f"{project['name'].replace('-', '_')}-{project['version']}.dist-info").resolve()
    info.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    points = [f"{name} = {value}\n" for name, value in project["entry-points"]["plugformer"].items()]
    (info / "entry_points.txt").write_text("".join(["[plugformer]\n", *points]), encoding="utf-8")
    sys.path += [str(info.parent), str(folder.resolve())]
    os.environ["PLUGFORMER_PLUGINS"] = project["name"]
    importlib.invalidate_caches()


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each command of a block with the lines shown under it; a backslash continues a command."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, [line.rstrip() for line in shown if line.strip()]


def _run_here(arguments: list[str], given: bytes) -> tuple[object, str, str]:
    """Runs Plugformer on some standard input; returns its status, standard output and standard error."""
    out, err, status = io.StringIO(), io.StringIO(), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(arguments)
            except SystemExit as left:
                status = left.code
    return status or 0, out.getvalue(), err.getvalue()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pages find the examples that another has prepared: some show commands that read all dates."""
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def do_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_data: Path, prepared: Path
) -> Callable[[str], int]:
    """Does a page in a folder that has the repository's examples, and no plugins installed."""
    for variable in ("PLUGFORMER_REGISTRY", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".cache/plugformer").mkdir(parents=True)
    (tmp_path / ".cache/plugformer/examples").symlink_to(prepared)
    # torch.compile imports the module of a class, and keeps it by name for all pages of this process.
    session = ModuleType(f"page_{next(_NUMBERS)}")
    monkeypatch.setitem(sys.modules, session.__name__, session)
    return lambda text: Page(names=vars(session)).do(text)
