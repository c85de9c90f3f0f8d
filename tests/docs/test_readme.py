"""The two commands that the README begins with: both can be repeated, and CI runs the second."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASH = shutil.which("bash") or "bash"
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

STUBS = {
    "python3": 'echo "python3 $*" >>done; [ -e installed ] && mkdir -p .venv/bin && touch .venv/bin/activate',
    "sudo": '"$@"',
    "apt-get": 'echo "apt-get $*" >>done; [ "$1" = update ] || touch installed',
    "pip": 'echo "pip $*" >>done',
    "pytest": 'echo "pytest $*" >>done',
    "plugformer": f'[ "$1" = predict ] || set -- "$@" --set data.size=60 --set training.steps=2\n'
    f'exec "{Path(sys.executable).with_name("plugformer")}" "$@"',
}
"""A Debian without the package of `venv`, where nothing is installed; trainings are cut short."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    for name, script in STUBS.items():
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!{BASH}\n{script}\n", encoding="utf-8")
        stub.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_both_commands_work_twice(tmp_path: Path, environment: dict[str, str]) -> None:
    for command in COMMANDS * 2:
        ended = subprocess.run(
            [BASH, "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 2
    venv, install = "python3 -m venv .venv", "pip install -c constraints.txt -e"
    apt = ["apt-get update", "apt-get install --yes python3-venv"]
    both = [f"{install} .", venv, f"{install} .[dev]", "pytest -n auto --dist worksteal"]
    assert (tmp_path / "done").read_text().splitlines() == [venv, *apt, venv, *both, venv, *both]


@pytest.fixture
def run_ci(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs `.ci/run` in a repository that has nothing else but a README."""

    def run(readme: str) -> subprocess.CompletedProcess[str]:
        shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
        (tmp_path / "README.md").write_text(readme, encoding="utf-8")
        commit = "git init -q && git add . && git -c user.name=x -c user.email=x@example.org commit -q -m x"
        script = f"{commit} && bash .ci/run"
        return subprocess.run([BASH, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_ci_runs_the_second_command_as_it_stands(run_ci: Callable[[str], Any]) -> None:
    assert "pytest" in COMMANDS[1]
    ended = run_ci(README.replace(COMMANDS[1], 'ls -A &&\n  echo "two\nlines" &&\n  exit 7\n'))
    assert ended.returncode == 7, ended.stderr
    assert ended.stdout.splitlines()[-5:] == [".ci", ".git", "README.md", "two", "lines"]  # in a clone


def test_ci_ends_without_the_second_command(run_ci: Callable[[str], Any]) -> None:
    ended = run_ci(README.replace("<!-- run by .ci/run -->\n", ""))
    assert ended.returncode == 1, ended.stderr
    assert "README.md" in ended.stdout
