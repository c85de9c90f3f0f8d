"""The gallery is what its page says: short files that keep their contracts and train."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from plugformer.configuration import resolve
from plugformer.interfaces import Batch, Tokens
from plugformer.model.assembly import Sizes, assemble
from plugformer.registry import Registry
from plugformer.training.train import train
from plugformer_testing.runner import report
from plugformer_testing.subject import Subject

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "examples" / "gallery"
LONGEST = 125


class Row(NamedTuple):
    """A component in the page's table."""

    name: str
    source: str
    file: str
    lines: str
    check: str


ROWS = [
    Row(*found)
    for found in re.findall(
        r"^\| `(\w+/\w+)`: .* \| \[.*\]\((.*)\) \| `(.*)` \| (.*) \| (.*) \|$",
        (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]
SETTINGS = {
    "attention/retention": [
        "model.decoder.attention=retention",
        "model.decoder.cross_attention.attention=mha",
    ],
    "attention/sliding_window": ["model.attention={name: sliding_window, window: 2}"],
}
TAGGING = [
    "model.head=crf",
    "training.label_smoothing=0",
    "training.steps=10",
    "training.log_every=1",
    "model.width=16",
    "model.heads=2",
    "model.layers=1",
]
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """The registry with the gallery and every plugin beside it, as if they were installed."""
    folders = [GALLERY, ROOT / "examples" / "plugformer-differential"]
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    registry = Registry.discover()
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
        (manifest,) = folder.glob("*/registry.yaml")
        registry = registry.with_local(manifest)
    before = set(sys.modules)
    yield registry
    for name in set(sys.modules) - before:
        if name.startswith(("plugformer_gallery", "plugformer_differential")):
            del sys.modules[name]


def test_every_component_of_the_gallery_has_a_row(installed: Registry) -> None:
    local = {
        f"{entry.kind}/{entry.name}": entry.source
        for entry in installed.entries()
        if entry.distribution == "local"
    }
    assert {row.name: row.source for row in ROWS} == local


@rows
def test_a_file_is_short_and_as_long_as_the_page_says(row: Row, installed: Registry) -> None:
    file = ROOT / row.file
    assert Subject.registered(row.name, installed).file == str(file)
    lines = len(file.read_text(encoding="utf-8").splitlines())
    assert (str(lines), lines <= LONGEST) == (row.lines, True)


@rows
def test_a_component_keeps_its_contract_as_the_page_says(row: Row, installed: Registry) -> None:
    found = report(Subject.registered(row.name, installed))
    assert found.passed, [str(each) for each in found.outcomes]
    assert found.summary() == row.check


@rows
def test_a_component_trains_and_decodes(
    row: Row,
    installed: Registry,
    short_settings: Callable[..., list[str]],
    recorder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sample_data: Path,
) -> None:
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    kind, _, name = row.name.partition("/")
    task, settings = "dates", short_settings(*SETTINGS.get(row.name, [f"model.{kind}={name}"]))
    if row.name == "head/crf":
        task, settings = "ud-ewt", TAGGING
    trained = train(task, overrides=settings, out=tmp_path / "run", registry=installed, observers=[recorder])
    losses = [update.loss for update in recorder.of("step_ended", "update")]
    assert losses[-1] < losses[0]
    assert trained.self_check is not None
    assert trained.self_check.passed, str(trained.self_check)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in ("position/shaw", "attention/retention")])
def test_gradient_checkpointing_changes_nothing(
    row: Row, installed: Registry, short_settings: Callable[..., list[str]], sentences: Callable[..., Tokens]
) -> None:
    kind, _, name = row.name.partition("/")
    settings = short_settings(*SETTINGS.get(row.name, [f"model.{kind}={name}"]))
    batch = Batch(sentences("left"), sentences("left", begin=True))
    gradients = []
    for checkpointing in ("false", "true"):
        overrides = [*settings, f"training.gradient_checkpointing={checkpointing}"]
        torch.manual_seed(0)  # of dropout
        model = assemble(resolve("dates", overrides, installed).task, Sizes(12, 12), installed)
        model(batch).total.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    torch.testing.assert_close(gradients[0], gradients[1])


def test_the_gallery_passes_its_own_tests(tmp_path: Path) -> None:
    """All but the contracts, which are above."""
    information = tmp_path / "plugformer_gallery-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: plugformer-gallery\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text("[plugformer]\ngallery = plugformer_gallery\n")
    path = os.pathsep.join([str(tmp_path), str(GALLERY), *filter(None, sys.path)])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            "not check",
            GALLERY / "tests",
        ],
        env={**os.environ, "PYTHONPATH": path, "PLUGFORMER_PLUGINS": "plugformer-gallery"},
        cwd=GALLERY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
