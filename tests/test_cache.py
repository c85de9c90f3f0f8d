"""Where files are kept that can be made again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.cache import _scratch_folder, cache_folder, scratch_folder


def test_the_users_word_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "plugformer"
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_scratch_is_in_the_cache_and_outlives_its_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path))
    folder = scratch_folder("examples")
    assert folder.parent == tmp_path / "examples"
    shutil.rmtree(tmp_path / "examples")
    assert scratch_folder("examples").is_dir()


def test_scratch_goes_with_its_process_and_not_with_a_fork(tmp_path: Path) -> None:
    program = """
import os, sys
from plugformer.cache import scratch_folder
folder = scratch_folder("examples")
(folder / "file").touch()
if os.fork() == 0:
    sys.exit()
os.wait()
print((folder / "file").exists())
"""
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PLUGFORMER_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "True\n"
    assert list((tmp_path / "examples").iterdir()) == []


def test_what_killed_processes_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path))
    program = (
        "import os, sys; from plugformer.cache import scratch_folder; "
        "print(scratch_folder('examples'), flush=True); sys.stdin.readline(); os.kill(os.getpid(), 9)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        own = scratch_folder("examples")
        assert left.parent == own.parent == tmp_path / "examples"
        assert left.is_dir()  # its process lives
        process.stdin.write("\n")
        process.stdin.close()
        process.wait()
    assert left.is_dir()
    _scratch_folder.cache_clear()  # as in the next process
    assert scratch_folder("examples") != own
    assert not left.exists()
    assert own.is_dir()
