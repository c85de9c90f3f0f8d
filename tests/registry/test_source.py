"""The hash of a component's source: what it covers, and that nothing is imported for it."""

import shutil
import sys
from hashlib import sha256
from zipfile import ZipFile

import pytest

from plugformer.registry.source import _reached, source_hash

PLUGIN = "plugin_of_source_tests"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose module `part` reaches `near` and, through it, `far`; `other` is not reached."""
    folder = tmp_path / PLUGIN
    (folder / "deep").mkdir(parents=True)
    sources = {
        "__init__": "",
        "part": "import math\nfrom . import near\n",
        "near": f"from {PLUGIN}.deep.far import value\n",
        "deep/__init__": "",
        "deep/far": "value = 1\nfrom .. import missing_attribute_is_no_module\n",
        "other": "",
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    assert not [name for name in sys.modules if name.partition(".")[0] == PLUGIN]


@pytest.mark.parametrize(
    ("module", "counts"), [("part", True), ("near", True), ("deep/far", True), ("other", False)]
)
def test_the_hash_covers_what_a_module_reaches_in_its_own_package(package, module, counts):
    before = source_hash(f"{PLUGIN}.part")
    assert source_hash(f"{PLUGIN}.part") == before
    with (package / f"{module}.py").open("a") as file:
        file.write("# changed\n")
    assert (source_hash(f"{PLUGIN}.part") != before) is counts


@pytest.mark.parametrize("installed", [False, True])
def test_files_beside_a_single_one_count_where_nothing_is_installed(tmp_path, monkeypatch, installed):
    names = ["part", "near", "far", "tools"]
    part, near, far, tools = (f"{PLUGIN}_{name}" for name in names)
    (tmp_path / f"{part}.py").write_text(f"import json\nfrom {near} import value\nimport {tools}.one\n")
    (tmp_path / f"{near}.py").write_text(f"import {far}\nvalue = 1\n")
    (tmp_path / f"{far}.py").touch()
    (tmp_path / tools).mkdir()
    (tmp_path / tools / "one.py").touch()
    if installed:
        (tmp_path / "something-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(_reached(part)) == ({part} if installed else {part, near, far, f"{tools}.one"})


def test_a_part_of_another_distribution_does_not_count():
    """The interfaces belong to the core: a new version of it does not change a plugin's hash."""
    reached = _reached("plugformer_plugins.attention.multi_head")
    assert "plugformer_plugins.attention.grouped" in reached
    assert {name.partition(".")[0] for name in reached} == {"plugformer_plugins", "plugformer_blocks"}


def test_building_blocks_count():
    """Whoever wrote the component: another softmax attention is another component."""
    reached = _reached("plugformer_plugins.attention.multi_head")
    assert "plugformer_blocks.softmax_attention" in reached
    assert "plugformer_blocks.fast_tokenizer" in _reached("plugformer_plugins.tokenizer.whitespace")


def test_no_package_has_to_be_imported_even_without_a_file_of_its_own(package):
    names = [f"{PLUGIN}.{name}" for name in ("part", "near", "deep.far")]
    for folder in (package / "deep", package):
        (folder / "__init__.py").unlink()
        assert set(_reached(names[0])) - {PLUGIN} == set(names)


def test_a_package_in_a_zip_has_the_same_hash(package, monkeypatch):
    before = source_hash(f"{PLUGIN}.part")
    with ZipFile(package.parent / "zipped.zip", "w") as archive:
        for file in package.rglob("*.py"):
            archive.write(file, file.relative_to(package.parent))
    shutil.rmtree(package)
    monkeypatch.syspath_prepend(str(package.parent / "zipped.zip"))
    assert source_hash(f"{PLUGIN}.part") == before


@pytest.mark.parametrize(
    "damage", [b"def (", b"\0", b"# coding: nonsense", b"# coding: ascii\n\xff"], ids=repr
)
def test_source_that_cannot_be_read_is_another_source(package, damage):
    before = source_hash(f"{PLUGIN}.part")
    (package / "part.py").write_bytes(damage)
    assert source_hash(f"{PLUGIN}.part") != before


def test_what_is_not_there_has_the_hash_of_nothing():
    assert source_hash("surely_absent.part") == source_hash("json.absent") == sha256().hexdigest()
