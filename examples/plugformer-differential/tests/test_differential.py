"""Differential attention is its formula, keeps the contract of attentions, and says what it cannot do."""

import math
from dataclasses import replace

import pytest
import torch
from plugformer_differential.attention import DifferentialAttention
from torch import Tensor

from plugformer import create, create_model
from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    CAUSAL,
    Context,
    ModelContext,
    Place,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer_testing import parametrize_with_checks

MODEL = ModelContext(width=24, heads=4, ffn_width=8)
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@parametrize_with_checks("attention/differential")
def test_contract(check):
    check()


@pytest.fixture
def attention() -> DifferentialAttention:
    torch.manual_seed(0)
    made = DifferentialAttention(MODEL, lambda_init=0.3).double()
    torch.nn.init.uniform_(made.norm.weight, 0.5, 1.5)
    return made


@pytest.fixture(params=["none", "rope", "alibi", "t5"])
def encoding(request: pytest.FixtureRequest) -> PositionalEncoding:
    torch.manual_seed(1)
    made: PositionalEncoding = create("position", request.param, MODEL)
    return made.double()


def formula(attention: DifferentialAttention, x: Tensor, encoding: PositionalEncoding) -> Tensor:
    """The paper's equations 1 to 3, a loop over pairs, on causal self-attention without padding."""
    positions = Positions.of(x.shape[1], encoding)
    width = MODEL.width // MODEL.heads
    bias = encoding.bias(positions, positions)
    future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    q1, k1, q2, k2 = (attention.get_parameter(f"lambda_{name}").tolist() for name in ("q1", "k1", "q2", "k2"))
    weight = math.exp(_dot(q1, k1)) - math.exp(_dot(q2, k2)) + 0.3

    def map_of(head: int) -> Tensor:
        part = slice(head * width, (head + 1) * width)
        q = encoding.rotate((x @ attention.query.weight[part].T)[:, None], positions)[:, 0]
        k = encoding.rotate((x @ attention.key.weight[part].T)[:, None], positions)[:, 0]
        scores = q @ k.mT / math.sqrt(width)
        if bias is not None:
            scores = scores + bias[:, head]
        return scores.masked_fill(future, -math.inf).softmax(-1)

    pairs = []
    for pair in range(MODEL.heads // 2):
        value = x @ attention.value.weight[2 * width * pair : 2 * width * (pair + 1)].T
        read = (map_of(2 * pair) - weight * map_of(2 * pair + 1)) @ value
        scale = (read.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        pairs.append(0.7 * read / scale * attention.norm.weight)
    return torch.cat(pairs, -1) @ attention.output.weight.T


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_it_is_the_formula(attention: DifferentialAttention, encoding: PositionalEncoding) -> None:
    x = torch.randn(2, 5, MODEL.width, dtype=torch.float64)
    positions = Positions.of(5, encoding)
    got = attention(x, Context(positions, positions, view=CAUSAL))
    torch.testing.assert_close(got, formula(attention, x, encoding))


@pytest.mark.parametrize("position", ["none", "rope", "alibi", "t5"])
def test_cached_equals_uncached(position: str) -> None:
    sizes = {"vocabulary": 20, "width": MODEL.width, "heads": MODEL.heads, "layers": 1, "max_length": 8}
    attention = (DifferentialAttention, {"lambda_init": 0.3})
    model = create_model("decoder-only", attention=attention, position=position, **sizes).double().eval()
    ids = torch.randint(4, 20, REAL.shape)
    expected, cache = model.decoder(Tokens(ids, REAL)), model.decoder.start()
    steps = [Tokens(ids[:, n : n + 1], REAL[:, n : n + 1]) for n in range(5)]
    got = torch.cat([model.decoder(step, cache=cache) for step in steps], dim=1)
    torch.testing.assert_close(got[REAL], expected[REAL])


def test_the_second_map_weighs_lambda_init_on_average() -> None:
    torch.manual_seed(0)
    weights = [DifferentialAttention(MODEL, lambda_init=0.7)._lambda().item() for _ in range(200)]
    assert sum(weights) / len(weights) == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(("layer", "expected"), [(0, 0.2), (1, 0.3555), (11, 0.7779)])
def test_lambda_init_grows_with_the_layer(layer: int, expected: float) -> None:
    model = replace(MODEL, place=Place(layer=layer, layers=12))
    assert DifferentialAttention(model).lambda_init == pytest.approx(expected, abs=1e-4)


def test_it_has_as_many_weights_in_its_maps_as_multi_head_attention() -> None:
    def matrices(attention: torch.nn.Module) -> int:
        return sum(value.numel() for value in attention.parameters() if value.dim() == 2)

    assert matrices(DifferentialAttention(MODEL)) == matrices(create("attention", "mha", MODEL))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 3, "width": 24}, r"3 heads do not form pairs; .* an even number, such as 4"),
        ({"heads": 4, "width": 22}, r"4 heads do not divide the width 22; expected a multiple of 4"),
    ],
)
def test_sizes_that_do_not_fit(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        DifferentialAttention(ModelContext(ffn_width=8, **sizes))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5])
def test_lambda_init_lies_between_zero_and_one(value: float) -> None:
    with pytest.raises(ConfigurationError, match="lambda_init"):
        create("attention", "differential", MODEL, lambda_init=value)
