"""The whole model is short: the files that the README names, with what they import of the model's folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
PACKAGE = "plugformer.model"


def named() -> list[Path]:
    """Returns the files that the README calls the whole model."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = re.search(r"Five files are the whole model:.*?\.\s+Each component", text, re.DOTALL)
    assert sentence is not None
    return [ROOT / link for link in re.findall(r"\]\(([^)]+)\)", sentence[0])]


def file_of(module: str) -> Path:
    """Returns the file of a module of the core, or of a package."""
    path = CORE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported(file: Path) -> Iterator[Path]:
    """Yields the files of the model's folder that a file imports, also by names that the package offers."""
    homes = {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(file_of(PACKAGE).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (file_of(alias.name) for alias in node.names if alias.name.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            yield file_of(PACKAGE)
            modules = [homes.get(alias.name, f"{PACKAGE}.{alias.name}") for alias in node.names]
            yield from (file_of(module) for module in modules if module.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            yield file_of(node.module or "")
            assert node.level == 0


def reached(files: list[Path]) -> set[Path]:
    """Returns these files, and all that they import of the model's folder, directly or not."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += [] if file == file_of(PACKAGE) else imported(file)
    return found


def test_five_files_and_what_they_import_of_the_model_have_less_than_990_lines() -> None:
    files = named()
    assert len(files) == 5
    counts = {
        file.relative_to(ROOT).as_posix(): len(file.read_text(encoding="utf-8").splitlines())
        for file in reached(files)
    }
    assert "core/plugformer/model/__init__.py" in counts
    assert sum(counts.values()) < 990, counts
