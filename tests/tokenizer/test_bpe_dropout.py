"""BPE dropout is its algorithm, draws from what it is given, and keeps the contract."""

from collections import Counter

import numpy as np
import pytest

from plugformer_plugins.tokenizer.bpe_dropout import BPEDropout
from plugformer_testing import parametrize_with_checks

TEXTS = ["low lower lowest", "new newer newest", "wide wider widest"] * 5


@parametrize_with_checks("tokenizer/bpe_dropout", options={"dropout": 1.0})
def test_every_merge_dropped(check):
    check()


def trained(dropout: float) -> BPEDropout:
    tokenizer = BPEDropout(size=300, dropout=dropout)
    tokenizer.train(TEXTS)
    return tokenizer


def test_without_dropout_it_cuts_as_the_library_does() -> None:
    tokenizer = trained(0.0)
    drawing = tokenizer.sampling(np.random.default_rng(0))
    texts = [*TEXTS, "the lowest, widest 42 <padding > slow\n  renew é", ""]
    assert drawing.encode(texts) == tokenizer.encode(texts)


def test_with_every_merge_dropped_bytes_are_left() -> None:
    tokenizer = trained(1.0)
    (row,) = tokenizer.sampling(np.random.default_rng(0)).encode(["lowest é"])
    assert len(row) == len("lowest é".encode())
    assert len(tokenizer.encode(["lowest é"])[0]) < len(row)


def test_what_is_drawn_is_normalized_and_lower_cased() -> None:
    tokenizer = BPEDropout(size=300, dropout=0.0, normalization="nfkc", lowercase=True)
    tokenizer.train(TEXTS)
    drawing = tokenizer.sampling(np.random.default_rng(0))
    assert drawing.encode(["LOWest \ufb01"]) == tokenizer.encode(["lowest fi"])


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_each_merge_is_dropped_with_its_probability(dropout: float) -> None:
    """Algorithm 1: `lo` comes first, then `low`; where `lo` is dropped, nothing can be merged."""
    tokenizer, generator, count = BPEDropout(dropout=dropout), np.random.default_rng(0), 4000
    tokenizer.train(["low low"])
    cuts = Counter(tokenizer.cut("low", generator) for _ in range(count))
    shares = {
        ("low",): (1 - dropout) ** 2,
        ("lo", "w"): (1 - dropout) * dropout,
        ("l", "o", "w"): dropout,
    }
    assert {cut: found / count for cut, found in cuts.items()} == pytest.approx(shares, abs=0.03)
