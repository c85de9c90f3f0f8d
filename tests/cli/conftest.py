"""The command line in this process, and local manifests written on the spot."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from plugformer_cli.main import main


@dataclass(frozen=True)
class Outcome:
    status: int | str | None
    out: str
    err: str


Run = Callable[..., Outcome]
Manifest = Callable[..., Path]


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No plugin, variable or folder of this machine shows in a test, and none of a test's own stays."""
    for variable in ("PLUGFORMER_REGISTRY", "FORCE_COLOR", "COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `plugformer` with these arguments."""

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        captured = capsys.readouterr()
        return Outcome(left.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Writes a local manifest, and modules beside it."""

    def write(text: str, **modules: str) -> Path:
        for name, code in modules.items():
            (tmp_path / f"{name}.py").write_text(code)
        file = tmp_path / "local.yaml"
        file.write_text(text)
        return file

    return write
