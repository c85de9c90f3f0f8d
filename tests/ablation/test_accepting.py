"""Finished cells of other code of Plugformer: counted if they are accepted, and named in the report."""

import io
import shutil

import pytest
from rich.console import Console
from tests.ablation.studies import Inline, declared, run

from plugformer.runs import lockfile
from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.running import cells
from plugformer_ablation.running.running import run_study


@pytest.fixture(scope="module")
def before(registry, tmp_path_factory):
    out = tmp_path_factory.mktemp("studies") / "before"
    run(declared(seeds=1), out, registry)
    return out


@pytest.fixture
def again(before, tmp_path, registry):
    """Runs the study in a copy, with changed ingredients; returns results, begun cells, and what was said."""

    def run_again(*, accept):
        said = io.StringIO()
        out = tmp_path / "study"
        if not out.exists():
            shutil.copytree(before, out)
        executor = Inline()
        executor.accept_code = accept
        results = run_study(declared(seeds=1), out, registry, executor, Console(file=said, soft_wrap=True))
        return results, executor.begun, said.getvalue()

    return run_again


def changing(monkeypatch, change):
    """Changes what cells are made of, both as they are planned and as they are trained."""
    real = lockfile.provenance

    def changed(*arguments):
        return change(real(*arguments))

    monkeypatch.setattr(cells, "provenance", changed)
    monkeypatch.setattr("plugformer_ablation.running.training.provenance", changed)


def of_plugformer(parts):
    components = {
        name: {**lock, "source": "other", "version": "9"} for name, lock in parts["components"].items()
    }
    versions = {**parts["versions"], "plugformer": "9"}
    return {**parts, "code": "other code", "components": components, "versions": versions}


def test_other_code_of_plugformer_alone_is_offered_and_then_accepted(again, monkeypatch):
    changing(monkeypatch, of_plugformer)
    results, begun, _ = again(accept=True)
    assert begun == []
    (code,) = results.made_of["accepted"]
    assert code != "other code" == results.made_of["code"]
    assert len(results.made_of["accepted"][code]) == 2
    assert f"2 cells of other code of Plugformer, {code[:12]}, are accepted" in repr(
        StudyReport(find(results))
    )
    results, begun, _ = again(accept=False)
    assert (begun, [*results.made_of["accepted"]]) == ([], [code]), "for good, and never in silence"


def test_without_acceptance_they_are_trained_again(again, monkeypatch):
    changing(monkeypatch, of_plugformer)
    results, begun, said = again(accept=False)
    assert len(begun) == 2
    assert "2 finished cells differ from these in the code of Plugformer alone" in said
    assert "accepted" not in results.made_of


@pytest.mark.parametrize("key", ["versions", "components", "data", "format"])
def test_whatever_else_differs_is_never_accepted(again, monkeypatch, key):
    def change(parts):
        other = {
            "versions": {**parts["versions"], "torch": "0"},
            "components": {
                name: {"distribution": "theirs", "version": "1", "source": "x"}
                for name in parts["components"]
            },
            "data": {**parts["data"], "test": "other"},
            "format": 0,
        }
        return {**parts, "code": "other code", key: other[key]}

    changing(monkeypatch, change)
    _, begun, said = again(accept=True)
    assert len(begun) == 2
    assert "accept" not in said
