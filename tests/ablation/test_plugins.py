"""Studies over components that are not built in: values like any other, in processes of their own too."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console
from tests.ablation.studies import declared, run

from plugformer.registry import Registry
from plugformer_ablation.running.executors import LocalExecutor
from plugformer_ablation.running.running import run_study

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A local manifest and its component, to be changed."""
    monkeypatch.syspath_prepend(tmp_path)  # restores the import path afterwards
    return shutil.copytree(EXAMPLES / "squared_relu", tmp_path / "local") / "registry.yaml"


def made_of(results, component):
    return results.made_of["components"][component]


def test_a_local_component_is_trained_in_processes_and_again_when_it_changes(manifest, tmp_path):
    study = declared("model.feed_forward=[gelu, {name: squared_relu, bias: false}]", seeds=1)
    registry = Registry.discover().with_local(manifest)
    results = run_study(study, tmp_path / "s", registry, LocalExecutor(1), Console(quiet=True), costs=False)
    assert [cell.failure for cell in results.cells] == [None, None]
    assert made_of(results, "feed_forward/squared_relu")["distribution"] == "local"
    assert run(study, tmp_path / "s", registry)[1] == []
    source = manifest.with_name("squared_relu.py")
    source.write_text(source.read_text() + "# faster\n")
    _, begun = run(study, tmp_path / "s", Registry.discover().with_local(manifest))
    assert begun == ["feed_forward=squared_relu(bias=false), seed 1"]
