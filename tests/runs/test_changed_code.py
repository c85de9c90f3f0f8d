"""A component that has changed since training: every use says so; what answers otherwise is not published."""

import json
import shutil
import sys

import pytest

from plugformer.errors import RunError
from plugformer.runs.loading import load
from plugformer.training.train import resume
from plugformer_export.onnx.format import ONNX
from plugformer_export.verification import verified
from plugformer_sharing.publishing import publication

MODULE = "norm_of_changed_code"
CODE = """
from plugformer_plugins.norm.norms import LayerNorm

class Mine(LayerNorm):
    def forward(self, x):
        return FACTOR * super().forward(x)
"""


@pytest.fixture
def edit(registry, tmp_path, monkeypatch):
    """Writes a norm that multiplies by a factor, and returns the registry that has it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    entry = f"{{class: '{MODULE}:Mine'}}"
    (tmp_path / "registry.yaml").write_text(f"components: {{norm: {{mine: {entry}}}}}")

    def edit(factor, comment=""):
        (tmp_path / f"{MODULE}.py").write_text(CODE.replace("FACTOR", str(factor)) + comment)
        sys.modules.pop(MODULE, None)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)  # of a file as long, of the same second
        return registry.with_local(tmp_path / "registry.yaml")

    yield edit
    sys.modules.pop(MODULE, None)


@pytest.fixture
def run(edit, train_tiny, tmp_path):
    registry = edit(2)
    train_tiny(tmp_path / "run", "model.norm=mine", registry=registry)
    return tmp_path / "run"


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name.startswith("plugformer")]


def test_unchanged_code_is_not_mentioned(run, edit, caplog):
    trained = load(run, edit(2))
    assert (said(caplog), [*trained.changes], trained.changed_answers()) == ([], [], "")
    trained.refuse_changes()


def test_changed_code_is_named_with_its_file(run, edit, caplog):
    notices = []
    load(run, edit(3)).evaluate(notify=notices.append)
    (message,) = said(caplog)
    assert message.startswith(f"{run}: components have changed")
    assert "norm/mine: local (" in message and message.endswith(f": {MODULE}.py")
    assert any("other answers than those in" in notice for notice in notices)


def test_what_answers_otherwise_is_neither_exported_nor_published(run, edit, tmp_path):
    changed = load(run, edit(3))
    with pytest.raises(RunError, match=r"norm/mine: .*\n.*other answers .*--allow-changes"):
        publication(changed, "hub:me/dates")
    with pytest.raises(RunError, match=r"norm/mine: .*\n.*other answers"):
        verified(changed, ONNX(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("overrides", [[], ["decoding={name: beam, size: 2}"]])
def test_a_change_that_changes_no_answer_is_only_mentioned(run, edit, caplog, overrides):
    changed = load(run, edit(2, "# harmless"), overrides=overrides)
    assert publication(changed, "hub:me/dates").files
    assert said(caplog)


def test_a_change_may_be_allowed_and_is_recorded(run, edit):
    registry = edit(3)
    resume(run, registry=registry, allow_changes=True, notify=str)
    assert publication(load(run, registry), "hub:me/dates").files


def test_without_recorded_answers_a_change_is_refused(run, edit):
    record = json.loads((run / "self_check.json").read_text())
    (run / "self_check.json").write_text(json.dumps({**record, "answers": []}))
    with pytest.raises(RunError, match="no answers were recorded"):
        load(run, edit(2, "# harmless")).refuse_changes()


def test_another_version_of_a_distribution_is_one_line(run_copy, caplog):
    lock = json.loads((run_copy / "lock.json").read_text())
    for record in lock["components"].values():
        record["version"] = "0.0.1"
    (run_copy / "lock.json").write_text(json.dumps(lock))
    (line,) = load(run_copy).changes
    assert line.startswith("plugformer 0.0.1 -> plugformer ")
    load(run_copy).refuse_changes()
