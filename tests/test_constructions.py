"""Parts are constructed at most twice before the first update: once without memory and once for real."""

from collections import Counter

import pytest
from torch import nn

import plugformer
from plugformer.hooks import hookimpl
from plugformer.interfaces import Architecture, TaskType

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
    """Counts the instances of modules, task types and architectures, by class name."""
    counts = Counter()

    def count(interface, method):
        original = getattr(interface, method)

        def counted(self, *args, **kwargs):
            counts[(self if isinstance(self, type) else type(self)).__name__] += 1
            return original(self) if method == "__new__" else original(self, *args, **kwargs)

        monkeypatch.setattr(interface, method, counted, raising=False)

    count(nn.Module, "__init__")
    count(TaskType, "__new__")
    count(Architecture, "__new__")
    return counts


def test_parts_are_built_once_without_memory_and_once_for_real(counts, tmp_path):
    counted = Counted(counts)
    trained = plugformer.train(
        "dates", overrides=SETTINGS, out=tmp_path / "run", notify=str, observers=[counted]
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
