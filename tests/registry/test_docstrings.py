"""What entries say about themselves, read from source code that nobody imports."""

import sys

import pytest

from plugformer.registry import Kind, Registry
from plugformer.registry.manifest import EntryKind

MANIFEST = """
components: {norm: {mine: "plug_doc.part:Mine", bare: "plug_doc.part:Bare", gone: "plug_doc.absent:Gone"}}
commands: {run: "plug_doc.part:run", app: "plug_doc.part:app"}
tasks: {toy: "plug_doc:toy.yaml"}
callbacks: [plug_doc.part]
"""
PART = '''"""Looks on."""
raise SystemExit("imported")
class Mine:
    """Halves.

    By Somebody 2020, section 2 (https://example.org/paper), and https://example.org/other.
    """
class Bare: ...
def run():
    """Run it."""
app = object()
"""Run one of several."""
'''


@pytest.fixture
def known(install):
    site = install("plug-doc", MANIFEST, part=PART)
    (site / "plug_doc" / "toy.yaml").write_text('type: x\ndescription: "A toy."\ndata: {description: no}\n')
    return Registry.discover()


@pytest.mark.parametrize(
    ("kind", "name", "summary", "source"),
    [
        (Kind.NORM, "mine", "Halves.", "https://example.org/paper"),
        (Kind.NORM, "bare", "", ""),
        (Kind.NORM, "gone", "", ""),
        (EntryKind.COMMAND, "run", "Run it.", ""),
        (EntryKind.COMMAND, "app", "Run one of several.", ""),
        (EntryKind.TASK, "toy", "A toy.", ""),
        (EntryKind.CALLBACKS, "plug_doc.part", "Looks on.", ""),
        (EntryKind.PLUGIN, "plug-doc", "", ""),
    ],
)
def test_the_first_line_is_the_summary_and_the_first_link_the_source(known, kind, name, summary, source):
    entries = known.plugins() if kind is EntryKind.PLUGIN else known.entries(kind)
    entry = next(entry for entry in entries if entry.name == name)
    expected = "3 components, 1 task, 2 commands, 1 callback module" if kind is EntryKind.PLUGIN else summary
    assert (entry.summary, entry.source) == (expected, source)
    assert "plug_doc" not in sys.modules


def test_code_that_cannot_be_read_says_nothing(install):
    install("plug-bad", "components: {norm: {mine: 'plug_bad.part:Mine'}}", part="class Mine(:\n")
    assert Registry.discover().find("norm", "mine").summary == ""
