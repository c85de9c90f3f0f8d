"""Studies from Python: arms as dicts, and classes of the session."""

import re

import pytest
from tests.ablation.studies import SETTINGS

from plugformer_ablation import ablate
from plugformer_ablation.reporting.sentences import sentences
from plugformer_plugins.attention.grouped import MultiHeadAttention


class Mine(MultiHeadAttention):
    """An attention of this session."""


def study(**arms):
    settings = dict(setting.split("=") for setting in SETTINGS)
    numbers = {key: int(value) if value.isdecimal() else value for key, value in settings.items()}
    return {"task": "dates", "set": numbers, "seeds": 2, "arms": arms}


@pytest.mark.parametrize(
    ("attention", "components"),
    [("mine", {"attention": {"mine": Mine}}), (Mine, None)],
    ids=["name", "class"],
)
def test_a_class_of_the_session_is_compared(tmp_path, capsys, attention, components):
    arms = {"mha": {}, "mine": {"model": {"attention": attention}}}
    report = ablate(study(**arms), components=components, out=tmp_path / "s")
    assert [cell.failure for cell in report.findings.results.cells] == [None] * 4
    assert "one after the other" in capsys.readouterr().err
    assert (tmp_path / "s/report.html").exists()
    assert "mine scores the same as mha" in repr(report)
    assert "<table" in report._repr_html_()
    name = "attention/mine" if components else "attention/session:Mine"
    assert name in report.findings.results.made_of["components"]


class Leaking(MultiHeadAttention):
    """One that reads later tokens."""

    def forward(self, x, context):
        return super().forward(x, context) + x.mean(1, keepdim=True)


def test_an_arm_that_reads_later_tokens_is_not_believed(tmp_path):
    arms = {"mha": {}, "leaking": {"model": {"attention": Leaking}}}
    report = ablate(study(**arms), out=tmp_path / "s")
    (sentence,) = sentences(report.findings)
    failed = r"the self-check of 2 of 2 trainings of leaking FAILED \(cached = uncached: .* differ by \d"
    assert re.search(failed, sentence)
    assert "trainings of mha" not in sentence


class Broken(MultiHeadAttention):
    """One that cannot be computed when it is trained."""

    def forward(self, x, context):
        if self.training:
            raise ZeroDivisionError("no queries")
        return super().forward(x, context)


def test_a_class_of_the_session_that_breaks_ends_its_own_cells(tmp_path):
    arms = {"mha": {}, "broken": {"model": {"attention": Broken}}}
    report = ablate(study(**arms), out=tmp_path / "s")
    failures = {cell.arm: cell.failure for cell in report.findings.results.cells}
    assert failures["mha"] is None
    assert failures["broken"].startswith("ZeroDivisionError: no queries")


def test_rows_in_memory_are_split_and_compared(tmp_path):
    rows = [{"text": f"{word} number {i}", "label": word} for i in range(20) for word in ("good", "bad")]
    task = {
        "type": "classification",
        "tokenizer": "words",
        "data": {"split": {"validation": 0.2, "test": 0.2}},
        "model": {"architecture": "encoder-only", "head": "classifier", "layers": 1, "width": 16, "heads": 2},
        "training": {"steps": 4, "evaluate_every": 2},
        "evaluation": {"metrics": ["accuracy"]},
    }
    wide = {"model": {"ffn_width": 64}}
    comparison = {"task": task, "seeds": 2, "arms": {"usual": {}, "wide": wide}}
    report = ablate(comparison, data=rows, out=tmp_path / "s")
    assert [cell.failure for cell in report.findings.results.cells] == [None] * 4
    assert report.findings.record["arms"][0]["cost"]["parameters"] > 0
    assert [comparison["pairs"] for comparison in report.findings.comparisons] == [2]
    again = ablate(comparison, data=rows, out=tmp_path / "s")
    assert [str(cell) for cell in again.findings.results.cells] == [
        str(cell) for cell in report.findings.results.cells
    ]
