"""Studies from Python: arms as dicts, and classes of the session."""

import pytest
from tests.ablation.studies import SETTINGS

from plugformer.errors import ConfigurationError
from plugformer_ablation import ablate
from plugformer_plugins.attention.grouped import MultiHeadAttention


class Mine(MultiHeadAttention):
    """An attention of this session."""


def study(**arms):
    settings = dict(setting.split("=") for setting in SETTINGS)
    numbers = {key: int(value) if value.isdecimal() else value for key, value in settings.items()}
    return {"task": "dates", "set": numbers, "seeds": 2, "arms": arms}


def test_a_class_of_the_session_is_compared(tmp_path, capsys):
    arms = {"mha": {}, "mine": {"model": {"attention": "mine"}}}
    findings = ablate(study(**arms), components={"attention": {"mine": Mine}}, out=tmp_path / "s")
    assert [cell.failure for cell in findings.results.cells] == [None] * 4
    assert "one after the other" in capsys.readouterr().err
    assert (tmp_path / "s/report.html").exists()
    assert "mine scores the same as mha" in repr(findings)
    assert "<table" in findings._repr_html_()
    assert "session:" in str(findings.results.made_of["components"]["attention/mine"]) or "Mine" in str(
        findings.results.made_of["components"]["attention/mine"]
    )


def test_a_mistake_names_the_arm():
    with pytest.raises(ConfigurationError, match=r"unknown attention 'mine'(?s:.)*in the arm 'mine'"):
        ablate(study(mha={}, mine={"model": {"attention": "mine"}}))
