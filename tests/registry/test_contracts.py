"""Versions of contracts: a component for another one is kept apart for users, and an error for its author."""

import json

import pytest

from plugformer.errors import RegistryError
from plugformer.interfaces import ModelContext
from plugformer.registry import CONTRACTS, Registry
from plugformer.registry.manifest import Contract
from plugformer_cli.main import main
from plugformer_testing import parametrize_with_checks

MANIFEST = """
contracts: {contracts}
components:
  norm: {{mine: "plug_one.parts:Mine"}}
  schedule: {{mine: "plug_one.parts:Steady"}}
"""

PARTS = """
from torch import nn
from plugformer.interfaces import Norm, Schedule

class Mine(Norm):
    def __init__(self, model):
        super().__init__()
        self.norm = nn.LayerNorm(model.width)

    def forward(self, x):
        return self.norm(x)

class Steady(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0
"""


@pytest.fixture
def written_for(install, monkeypatch):
    """Installs a plugin that states versions of contracts, where norms may have versions 2 to 3."""
    monkeypatch.setitem(CONTRACTS, "norm", Contract(3, dropped=("0.7",)))
    return lambda contracts: install("plug-one", MANIFEST.format(contracts=contracts), parts=PARTS)


@pytest.mark.parametrize(
    ("contracts", "version", "cure"),
    [
        ("{}", 1, "install `plugformer<0.7`, or a newer `plug-one`"),
        ("{norm: 1}", 1, "install `plugformer<0.7`, or a newer `plug-one`"),
        ("{norm: 4}", 4, "install a newer `plugformer`, or an older `plug-one`"),
    ],
)
def test_another_version_is_quarantined_and_all_else_works(written_for, contracts, version, cure):
    written_for(contracts)
    registry = Registry.discover()
    with pytest.raises(RegistryError) as caught:
        registry.load("norm", "mine")
    message = str(caught.value)
    assert message.startswith("norm 'mine' (plug-one 1.0) is quarantined: ")
    assert f"version {version} of the contract of norm" in message
    assert "supports 2 to 3" in message
    assert message.endswith(cure)
    assert registry.create("schedule", "mine").factor(1, steps=2, width=8) == 1.0
    assert registry.create("norm", "layer_norm", ModelContext(width=8, heads=2, ffn_width=8)) is not None


def test_authors_get_an_error(written_for, capsys):
    written_for("{norm: 1}")
    with pytest.raises(RegistryError, match="version 1 of the contract of norm"):
        parametrize_with_checks("norm/mine")
    with pytest.raises(SystemExit, match="1"):
        main(["check", "plug-one", "--", "-q"])
    assert "plugformer<0.7" in capsys.readouterr().out


@pytest.mark.parametrize("version", [2, 3])
def test_a_supported_version_is_used_and_shown(written_for, capsys, version):
    written_for(f"{{norm: {version}}}")
    with pytest.raises(SystemExit, match="0"):
        main(["info", "norm/mine", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["contract"], shown["supported"], shown["state"]) == (version, "2 to 3", "ready")


def test_what_is_built_in_has_the_present_version():
    for entry in Registry.discover().entries():
        if entry.distribution == "plugformer":
            assert entry.contract == CONTRACTS[entry.kind].version, entry
