"""Parts are constructed at most twice before the first update: once without memory and once for real."""

from collections import Counter

import pytest
from torch import nn

import plugformer
from plugformer.hooks import hookimpl
from plugformer.registry import Registry

SETTINGS = ["data.size=60", "training.steps=1", "model.width=16", "decoding.max_length=4"]


class Counted:
    """Counts the constructions before the first update."""

    def __init__(self, counts):
        self.counts = counts
        self.before = Counter()

    @hookimpl
    def run_started(self, run):
        self.before = Counter(self.counts)


@pytest.fixture
def counts(monkeypatch):
    """Counts the modules that are constructed and the components that the registry creates, by class name."""
    counts = Counter()
    construct, create = nn.Module.__init__, Registry.create

    def constructed(self, *args, **kwargs):
        counts[type(self).__name__] += 1
        construct(self, *args, **kwargs)

    def created(self, *args, **options):
        component = create(self, *args, **options)
        counts[type(component).__name__] += 1
        return component

    monkeypatch.setattr(nn.Module, "__init__", constructed)
    monkeypatch.setattr(Registry, "create", created)
    return counts


def test_parts_are_built_once_without_memory_and_once_for_real(counts, tmp_path):
    counted = Counted(counts)
    trained = plugformer.train(
        "dates", overrides=SETTINGS, out=tmp_path / "run", notify=str, callbacks=[counted]
    )
    places = Counter(type(module).__name__ for module in trained.model.modules())
    assert places["MultiHeadAttention"] == 6
    for part in ("MultiHeadAttention", "LayerNorm", "GELU", "PreNorm", "Learned", "LanguageModel"):
        assert counted.before[part] == 2 * places[part]
    assert (counted.before["SequenceToSequence"], counted.before["EncoderDecoder"]) == (1, 1)


def test_loading_creates_everything_once(counts, train_tiny, tmp_path):
    train_tiny(tmp_path / "run", "training.steps=1")
    counts.clear()
    places = Counter(type(module).__name__ for module in plugformer.load(tmp_path / "run").model.modules())
    assert (counts["SequenceToSequence"], counts["EncoderDecoder"]) == (1, 1)
    assert counts["MultiHeadAttention"] == places["MultiHeadAttention"]
