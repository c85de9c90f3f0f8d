"""The hashes of source code: what they cover, and that nothing is imported for them."""

import sys
from dataclasses import replace
from hashlib import sha256

import pytest

from plugformer.registry import Kind
from plugformer.registry.manifest import Entry
from plugformer.registry.source import code_hash, source_hash

PLUGIN = "plugin_of_source_tests"
ENTRY = Entry(Kind.ATTENTION, "mine", f"{PLUGIN}.part:Mine")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with modules, packages, and a folder that is no package."""
    folder = tmp_path / PLUGIN
    for name in ("__init__", "part", "near", "deep/__init__", "deep/far", "data/script"):
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    assert not [name for name in sys.modules if name.partition(".")[0] == PLUGIN]


def edited(file):
    with file.open("a") as stream:
        stream.write("# changed\n")


IMPORTING = """
import json, sys, numpy
from . import near
from .deep import far

def later():
    import deeper.last
"""


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        ("part", True),
        ("near", True),
        ("__init__", True),  # Python executes it first
        ("deep/__init__", True),
        ("deep/far", True),
        ("deeper/last", True),
        ("other", False),
        ("deep/other", False),
        ("data/script", False),
    ],
)
@pytest.mark.parametrize("local", [True, False])
def test_of_a_component_what_it_imports_counts(package, module, counts, local):
    (package / "part.py").write_text(IMPORTING.replace("deeper", "deeper" if local else f"{PLUGIN}.deeper"))
    (package / "near.py").write_text("from .part import later")  # a circle
    for name in ("other", "deep/other", "deeper/last"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / f"{name}.py").write_text("")
    entry = replace(ENTRY, file=str(package / "registry.yaml")) if local else ENTRY
    before = source_hash(entry)
    assert before == source_hash(entry) != sha256().hexdigest()
    edited(package / f"{module}.py")
    assert (source_hash(entry) != before) is counts


def test_of_a_component_that_python_cannot_read_its_file_counts(package):
    (package / "part.py").write_text("def (")
    assert source_hash(ENTRY) != sha256().hexdigest()


PARTS = [("part", True), ("near", True), ("deep/far", True), ("data/script", False)]


@pytest.mark.parametrize(("module", "counts"), PARTS)
def test_the_code_of_a_local_component_is_its_folder(package, module, counts):
    entry = replace(ENTRY, file=str(package / "registry.yaml"))
    before = code_hash([entry])
    edited(package / f"{module}.py")
    assert (code_hash([entry]) != before) is counts


@pytest.mark.parametrize(("module", "counts"), PARTS)
def test_the_code_of_a_component_is_its_package(package, module, counts):
    before = code_hash([ENTRY])
    edited(package / f"{module}.py")
    assert (code_hash([ENTRY]) != before) is counts


def test_the_code_covers_further_packages():
    assert len({code_hash([]), code_hash([], "plugformer"), code_hash([], "plugformer_blocks")}) == 3


@pytest.mark.parametrize("target", ["surely_absent.part:A", "json.absent:A", "sys:A"])
def test_what_is_not_there_has_the_hash_of_nothing(target):
    assert source_hash(Entry(Kind.ATTENTION, "mine", target)) == sha256().hexdigest()
