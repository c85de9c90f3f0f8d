"""Runs from somebody else: none of their code runs, no file that they link to is published."""

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from tests.forking import PRELOADED

NUMBER = int(os.environ.get("PLUGFORMER_FUZZ") or 16)
"""Prepared runs, drawn with the same seed at every time."""

SECRET = "a-key-that-nobody-may-read"  # noqa: S105 (of nobody)
PROGRAM = Path(__file__).with_name("planted.py")
COMMANDS = {
    "list": ["list"],
    "info": ["info", "run"],
    "validate": ["validate", "run/task.yaml"],
    "predict": ["predict", "run", "May 1, 2001"],
    "evaluate": ["evaluate", "run"],
    "plot": ["plot", "run", "--out", "plots"],
    "export": ["export", "run", "--to", "ctranslate2", "--out", "public/export", "--examples", "2"],
    "push": ["push", "run", "--to", "public/push", "--checkpoints"],
}


class Payload:
    """Writes the marker where it is unpickled."""

    def __init__(self, code):
        self._code = code

    def __reduce__(self):
        return exec, (self._code,)


class Planter:
    """Writes what is planted, and knows whether any of it has run."""

    def __init__(self, folder):
        self.marker = folder / "executed"
        self.secret = folder / "secret" / "key.json"
        self.secret.parent.mkdir()
        self.secret.write_text(json.dumps({"key": SECRET}))

    @property
    def code(self):
        return f"open({str(self.marker)!r}, 'a').write(globals().get('__file__', 'a pickle') + '\\n')\n"

    def contents(self):
        """Returns what may be in place of a file, by what it is; None for a link."""
        tags = f"a: !!python/object/apply:builtins.exec [{json.dumps(self.code)}]\n"
        values = {"list": "[]", "object": '{"a": {"b": [1]}}', "number": "3", "text": '"x"', "null": "null"}
        return {
            "link": None,
            "python": self.code.encode(),
            "pickle": pickle.dumps(Payload(self.code)),
            "tags": tags.encode(),
            **{name: f"{text}\n".encode() for name, text in values.items()},
        }

    def replace(self, file, kind):
        """Puts one of these contents in place of a file or folder."""
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        content = self.contents()[kind]
        if content is not None:
            file.write_bytes(content)
        else:
            file.symlink_to(self.secret if "." in file.name else self.secret.parent)


@pytest.fixture
def planter(tmp_path):
    return Planter(tmp_path)


@pytest.fixture
def problems(planter, trained, tmp_path):
    """Does commands in prepared runs; returns what went wrong."""

    def do(cases):
        environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        lines = []
        for number, (arguments, file, kind) in enumerate(cases):
            folder = tmp_path / f"case-{number}"
            shutil.copytree(trained.directory, folder / "run", copy_function=linked)
            if file:
                planter.replace(folder / "run" / file, kind)
            lines.append(json.dumps({"folder": str(folder), "arguments": arguments}))
        (tmp_path / "cases").write_text("\n".join(lines))
        words = [sys.executable, str(PROGRAM), str(tmp_path / "cases"), *PRELOADED]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        statuses = list(map(int, done.stdout.split()))
        assert len(statuses) == len(cases), done.stderr
        found = [
            (*case, problem)
            for number, case in enumerate(cases)
            for problem in wrong(tmp_path / f"case-{number}", statuses[number], case)
        ]
        return found + planter.marker.read_text().splitlines() if planter.marker.exists() else found

    return do


def linked(source, target):
    """Copies a file, one of tensors without its content; they are only replaced as a whole."""
    (os.link if source.endswith(".safetensors") else shutil.copyfile)(source, target)


def wrong(folder, status, case):
    """Yields what a command has done that it may not do."""
    said = (folder / "output.txt").read_text(errors="replace")
    for file in (folder / "public").rglob("*") if (folder / "public").exists() else ():
        if file.is_symlink() or (file.is_file() and SECRET.encode() in file.read_bytes()):
            yield f"publishes {file.relative_to(folder)}"
    if status not in (0, 2) or "this is a bug in Plugformer" in said:
        yield f"status {status}: {said[-300:]}"


def test_prepared_runs(problems, planter, trained):
    files = [file.relative_to(trained.directory).as_posix() for file in trained.directory.rglob("*")]
    files += ["tokenizer-zzz.json", "README.md", "registry.yaml", "evil.py", "averaging", "plots"]
    cases = sorted(product(COMMANDS, files, planter.contents()))
    drawn = random.Random(0).sample(cases, min(NUMBER, len(cases)))  # noqa: S311 (no secrets)
    assert not problems([(COMMANDS[command], file, kind) for command, file, kind in drawn])
