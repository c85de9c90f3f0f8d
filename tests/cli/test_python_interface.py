"""`import plugformer`: its names, found when used, and creating components by name."""

import pytest

import plugformer
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import Attention, ModelContext


def test_every_name_is_there_and_documented():
    assert plugformer.__all__ == sorted(plugformer.__all__)
    assert set(plugformer.__all__) <= set(dir(plugformer))
    for name in set(plugformer.__all__) - {"__version__"}:
        assert getattr(plugformer, name).__name__ == name
        assert getattr(plugformer, name).__doc__


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'plugformer' has no attribute 'trian'"):
        plugformer.trian  # noqa: B018 (looking it up is the test)


def test_create_constructs_a_component_from_its_context_and_options():
    context = ModelContext(width=8, heads=4, ffn_width=16)
    attention = plugformer.create("attention", "gqa", context, kv_heads=2)
    assert isinstance(attention, Attention)
    with pytest.raises(ConfigurationError, match="kv_head"):
        plugformer.create("attention", "gqa", context, kv_head=2)


def test_components_are_entries_by_name():
    names = [entry.name for entry in plugformer.components("attention")]
    assert names == sorted(names)
    assert "gqa" in names
    with pytest.raises(RegistryError, match=r"unknown kind 'atention' \(did you mean 'attention'\?\)"):
        plugformer.components("atention")
