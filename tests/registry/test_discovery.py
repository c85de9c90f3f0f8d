"""Discovery: everything installed is found without an import; what is broken is kept apart."""

import subprocess
import sys
from pathlib import Path

import pytest

import plugformer
from plugformer.errors import RegistryError
from plugformer.registry import Registry
from plugformer.registry.discovery import discover_installed
from plugformer.registry.manifest import Plugin

MANIFEST = "components: {norm: {mine: {class: 'plug_one.norms:Mine'}}}"


def plugins() -> dict[str, Plugin]:
    return {plugin.distribution: plugin for plugin in discover_installed()}


def test_an_installed_plugin_is_found_and_not_imported(install) -> None:
    install("plug-one", MANIFEST, version="2.3")
    plugin = plugins()["plug-one"]
    assert not plugin.problems
    assert plugin.version == "2.3"
    assert [entry.name for entry in plugin.entries] == ["mine"]
    assert "plug_one" not in sys.modules


@pytest.mark.parametrize(
    ("manifest", "options", "cause"),
    [
        (None, {}, "package 'plug_one' has no registry.yaml"),
        (MANIFEST, {"value": "plug_absent"}, "package 'plug_absent' has no registry.yaml"),
        (MANIFEST, {"value": "plug_one.inner"}, "package 'plug_one.inner' has no registry.yaml"),
        (MANIFEST, {"value": "colorsys"}, "package 'colorsys' has no registry.yaml"),
        ("components: [", {}, "is not valid YAML"),
        (
            "contracts: {norm: two}",
            {},
            "contracts.norm: expected the version of a contract, such as 1, found 'two'",
        ),
        ("components: {nrom: {}}", {}, "unknown key 'nrom' (did you mean 'norm'?)"),
        ("plugformer: '>=99'", {}, f"needs plugformer >=99; installed is {plugformer.__version__}"),
        ("plugformer: soon", {}, "Invalid specifier: 'soon'"),
    ],
)
def test_a_broken_plugin_is_quarantined(install, manifest, options, cause) -> None:
    install("plug-one", manifest, **options)
    install("plug-two", MANIFEST)
    assert cause in plugins()["plug-one"].entry.cause
    assert not plugins()["plug-two"].problems


def test_the_environment_restricts_plugins_but_never_built_ins(install, monkeypatch) -> None:
    install("plug-one", MANIFEST)
    install("plug-two", MANIFEST)
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "Plug_Two, plug-three")
    assert set(plugins()) == {"plugformer", "plug-two"}
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    assert set(plugins()) == {"plugformer"}


def test_a_local_manifest_brings_its_folder(install, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "here"
    folder.mkdir()
    file = folder / "parts.yaml"
    file.write_text(MANIFEST)
    registry = Registry.discover(file)
    assert registry.find("norm", "mine").distribution == "local"
    assert registry.local == (file,)
    assert str(folder) in sys.path
    assert registry.with_local(file) is registry


def test_an_absent_local_manifest_is_an_error(tmp_path) -> None:
    with pytest.raises(RegistryError, match=r"absent\.yaml' cannot be read: No such file"):
        Registry.discover(tmp_path / "absent.yaml")


def test_discovery_imports_neither_torch_nor_pydantic_nor_plugins() -> None:
    code = (
        "import sys; from plugformer.registry import Registry; Registry.discover().entries();"
        "slow = {'torch', 'pydantic', 'packaging', 'plugformer_plugins', 'plugformer_tasks'};"
        "print(*slow & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def local(folder: Path, name: str, **modules: str) -> Path:
    folder.mkdir()
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)
    file = folder / "registry.yaml"
    file.write_text(f"components: {{norm: {{{name}: {{class: '{next(iter(modules))}:Mine'}}}}}}")
    return file


def package(folder: Path, name: str, module: str = "norms", code: str = "class Mine: ...") -> Path:
    """Writes a package that is not installed, with a manifest that names its modules by its own name."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("")
    (folder / name / f"{module}.py").write_text(code)
    file = folder / name / "registry.yaml"
    file.write_text(f"components: {{norm: {{mine: {{class: '{name}.{module}:Mine'}}}}}}")
    return file


NORM = """
from plugformer.interfaces import Norm

class Mine(Norm):
    def forward(self, x):
        return x
"""


def test_a_manifest_inside_a_package_brings_the_folder_of_the_package(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = package(tmp_path / "site", "plug_inside", code=NORM)
    registry = Registry.discover(file)
    assert str(tmp_path / "site") in sys.path
    assert str(file.parent) not in sys.path
    assert registry.load("norm", "mine").__module__ == "plug_inside.norms"


def test_several_local_manifests_are_named_on_the_command_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    first = local(tmp_path / "a b", "one", plug_of_a="class Mine: ...")
    second = local(tmp_path.with_name(f"{tmp_path.name}_b"), "other", plug_of_b="class Mine: ...")
    registry = Registry.discover(first, second)
    assert {entry.name for entry in registry.entries("norm") if entry.distribution == "local"} == {
        "one",
        "other",
    }
    assert registry.arguments == f" --registry 'a b/registry.yaml' --registry {second}"
    assert Registry.discover().arguments == ""
