"""`import plugformer`: its names, found when used, and creating components by name."""

import pytest

import plugformer
from plugformer.errors import RegistryError


def test_every_name_is_there_and_documented():
    assert plugformer.__all__ == sorted(plugformer.__all__)
    assert set(plugformer.__all__) <= set(dir(plugformer))
    for name in set(plugformer.__all__) - {"__version__"}:
        assert getattr(plugformer, name).__name__ == name
        assert getattr(plugformer, name).__doc__


def test_components_are_entries_by_name():
    names = [entry.name for entry in plugformer.components("attention")]
    assert names == sorted(names)
    assert "gqa" in names
    with pytest.raises(RegistryError, match=r"unknown kind 'atention' \(did you mean 'attention'\?\)"):
        plugformer.components("atention")
