"""A module that takes long to import is named while it does; a quick one starts nothing that stays."""

import threading

import pytest

from plugformer.registry import Registry, loading

SLOW = """
import time
time.sleep(0.4)
from plugformer.interfaces.schedule import Schedule

class Slow(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0
"""
MANIFEST = "components: {schedule: {slow: {class: 'plug_s.parts:Slow'}}}"


@pytest.fixture
def load(install):
    """Installs a plugin and returns how to load its component."""
    install("plug-s", MANIFEST, parts=SLOW)
    return lambda: Registry.discover().load("schedule", "slow")


@pytest.mark.parametrize("patience", [0.1, 60.0])
def test_a_slow_import_gets_one_line(load, monkeypatch, capsys, patience):
    monkeypatch.setattr(loading, "PATIENCE", patience)
    assert load().__name__ == "Slow"
    line = "still importing plug_s.parts after 0.1 s, for schedule 'slow' (plug-s 1.0)\n"
    assert capsys.readouterr() == ("", line if patience < 1 else "")


def test_nothing_stays(load):
    before = threading.active_count()
    load()
    assert threading.active_count() == before
