"""Where files are kept that can be made again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.cache import cache_folder, scratch_folder


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


def test_what_killed_processes_left_is_removed_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path))
    old, new = (tmp_path / "examples" / f"scratch-{name}" for name in ("old", "new"))
    for left in (old, new):
        left.mkdir(parents=True)
    os.utime(old, (0, 0))
    scratch_folder("examples")
    assert (old.exists(), new.exists()) == (False, True)
