"""The two commands that the README begins with: both can be repeated."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
