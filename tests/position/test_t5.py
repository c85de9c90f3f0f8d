"""t5 against its bucket formula, written once more with whole numbers and math.log."""

import math
from dataclasses import replace

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, ModelContext, Place, Positions
from plugformer_plugins.position.t5 import T5

MODEL = ModelContext(width=9, heads=3, ffn_width=1)


def one_direction(distance: int, buckets: int, max_distance: int) -> int:
    """Mesh TensorFlow's bucket of a distance among `buckets` (its causal variant for keys in the past)."""
    exact = buckets // 2
    if distance < exact:
        return distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return min(buckets - 1, exact + int(share * (buckets - exact) + 1e-9))


def bucket(ahead: int, buckets: int, max_distance: int) -> int:
    half = buckets // 2
    return one_direction(abs(ahead), half, max_distance) + (half if ahead > 0 else 0)


def bias(encoding: T5, length: int) -> torch.Tensor:
    positions = Positions.of(length, encoding)
    return encoding.bias(positions, positions)


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 64), (4, 2), (8, 50), (64, 128)])
def test_every_pair_reads_its_bucket(buckets, max_distance):
    encoding = T5(MODEL, buckets=buckets, max_distance=max_distance)
    length = 150
    expected = [
        [bucket(key - query, buckets, max_distance) for key in range(length)] for query in range(length)
    ]
    rows = encoding.table[torch.tensor(expected)]  # (query, key, heads)
    assert torch.equal(bias(encoding, length), rows.permute(2, 0, 1)[None])


CAUSAL_MODEL = replace(MODEL, place=Place(stack="decoder", view=CAUSAL))


def test_where_attention_is_causal_all_buckets_are_for_the_past():
    encoding = T5(CAUSAL_MODEL)
    with torch.no_grad():
        encoding.table.copy_(torch.arange(32.0)[:, None].expand(32, 3))
    past = bias(encoding, 200)[0, 0, -1].flip(0)
    assert past.tolist() == [one_direction(distance, 32, 128) for distance in range(200)]


def test_the_table_starts_with_deviation_of_one_over_the_root_of_the_width():
    encoding = T5(ModelContext(width=64, heads=500, ffn_width=1))
    assert encoding.table.std().item() == pytest.approx(1 / 8, rel=0.03)  # 16,000 values


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 8), (32, 2), (400, 100)])
def test_a_max_distance_inside_the_exact_buckets_is_refused(buckets, max_distance):
    with pytest.raises(
        ConfigurationError, match=f"max_distance {max_distance} .* at least {buckets // 4 + 1},"
    ):
        T5(MODEL, buckets=buckets, max_distance=max_distance)
