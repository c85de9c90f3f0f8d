"""What lies outside of the core imports its public names alone, as a stranger would."""

import ast
import importlib
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    f"plugformer.{name}"
    for name in (
        *(
            "cache",
            "configuration",
            "data",
            "distributed",
            "errors",
            "evaluation",
            "experiment",
            "faults",
            "callbacks",
            "hooks",
            "interfaces",
            "model",
            "optimizer",
            "registry",
        ),
        *("runs", "training", "validation"),
    )
} | {"plugformer"}
SHARED = {
    "plugformer_blocks",
    "plugformer_cli",
    "plugformer_sharing",
    "plugformer_transformers",
}
"""Packages that several features have in common."""

FEATURES = sorted(
    folder.name for folder in (ROOT / "plugins").iterdir() if folder.name.startswith("plugformer_")
)
FEATURES.append("plugformer_tasks")

ALSO = {
    "plugformer_serving": {"plugformer_inspection"},  # its page shows attention
    "plugformer_cli": {"plugformer_testing"},  # by the tests that `new plugin` writes
    "plugformer_transformers": {"plugformer_plugins"},  # parts of BERT extend built-in ones
    "plugformer_testing": {"plugformer"},  # it tests how the core treats components
}
"""Packages whose private modules a feature may import as well."""


def folder_of(package: str) -> Path:
    """Returns where a package of the repository lies."""
    return next(ROOT.glob(f"*/{package}"))


def imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yields a module and a name of it for everything of ours that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("plugformer"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("plugformer"))


def offered(module: str, name: str) -> bool:
    """Returns whether a package of the core offers a name to everybody."""
    package = importlib.import_module(module)
    return not name or name in getattr(
        package, "__all__", [public for public in vars(package) if public[0] != "_"]
    )


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_imports_public_names_alone(feature: str) -> None:
    allowed = {feature, *SHARED, *ALSO.get(feature, ())}
    private = [
        f"{file.relative_to(ROOT)}: {module} {name}"
        for file in sorted(folder_of(feature).rglob("*.py"))
        for module, name in imports(file)
        if module.partition(".")[0] not in allowed and not (module in PACKAGES and offered(module, name))
    ]
    assert not private, "\n".join(private)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", ()))
    assert len(set(names)) == len(names)
    assert not [name for name in names if not hasattr(module, name)]


def test_another_name_of_a_package_is_an_attribute_error() -> None:
    runs = importlib.import_module("plugformer.runs")
    with pytest.raises(AttributeError, match=r"module 'plugformer.runs' has no attribute 'own_tensor'"):
        runs.own_tensor  # noqa: B018 (looking it up is the test)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_typed_says_what_is_in_it_and_is_in_the_wheel(feature: str) -> None:
    folder = folder_of(feature)
    assert (folder / "py.typed").exists()
    assert importlib.import_module(feature).__doc__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert folder.relative_to(ROOT).as_posix() in project["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert feature in project["importlinter"]["root_packages"]
    contracts = {contract["name"]: contract for contract in project["importlinter"]["contracts"]}
    floors = " | ".join(contracts["The house has floors"]["layers"]).split(" | ")
    assert feature in floors
    assert feature in contracts["No imports in a circle"]["ancestors"]


def test_no_two_classes_have_one_name() -> None:
    files = [file for folder in ("core", "plugins", "tasks") for file in (ROOT / folder).rglob("*.py")]
    names = Counter(
        node.name
        for file in files
        if "templates" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, number in names.items() if number > 1] == []
