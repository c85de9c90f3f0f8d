"""The best next tokens by blocks, packed weights and their precision: equal to the plain path."""

import pytest
import torch
from tests.decoding.test_sessions import plain, session  # noqa: F401 (a fixture)
from torch import nn
from torch.nn import functional

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Session, decoding
from plugformer.interfaces.output_layer import LARGE, PackedMatrices, largest


@pytest.mark.parametrize("outputs", [5, 64, 4096, 8000, 8003])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_largest_scores_are_those_of_topk(outputs, k):
    scores = torch.randn(7, outputs, generator=torch.Generator().manual_seed(1))
    scores[3, 4:] = -torch.inf
    values, places = largest(scores, min(k, outputs))
    expected = scores.topk(min(k, outputs)).values
    assert torch.equal(values, expected)
    assert torch.equal(scores.gather(1, places), values)


def test_of_equal_scores_the_first_is_the_best():
    scores = torch.zeros(2, 1000)
    scores[0, [130, 140, 990]] = scores[1, [999]] = 1.0
    assert largest(scores, 1)[1].tolist() == [[130], [999]]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 2e-2), ("int8", 2e-2)])
def test_packed_matrices_compute_the_product(precision, tolerance, bias):
    layer = nn.Linear(64, LARGE // 64, bias=bias)
    x = torch.randn(5, 1, 64) * torch.tensor([1.0, 100.0, 1e-3, 1.0, 0.0])[:, None, None]
    with torch.inference_mode():
        expected = layer(x)
        with PackedMatrices(precision):
            found = layer(x)
            alone = layer(x[1:2])
    scale = expected.abs().amax(dim=-1, keepdim=True)
    assert ((found - expected).abs() <= tolerance * scale).all()
    torch.testing.assert_close(found[1:2], alone)  # a row is rounded by itself


def test_packed_matrices_are_read_anew_by_each_session():
    weight = nn.Parameter(torch.randn(LARGE // 64, 64))
    x = torch.randn(5, 64)
    for _ in range(2):
        with torch.inference_mode(), PackedMatrices("float32"):
            torch.testing.assert_close(functional.linear(x, weight), x @ weight.T)
        with torch.no_grad():
            weight.mul_(-1)


def test_without_kernels_the_error_says_so(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    PackedMatrices("float32")
    with pytest.raises(ConfigurationError, match="this PyTorch has no int8"):
        PackedMatrices("int8")


@pytest.mark.parametrize("portion", [1, 2**20])
def test_top_is_what_log_probabilities_have(plain, sentences, monkeypatch, portion):  # noqa: F811
    monkeypatch.setattr(decoding, "_PORTION", portion)
    opened = session(Session, plain, sentences())
    for length in range(3):
        values, tokens = opened.top(3)
        expected = opened.log_probabilities.topk(3, dim=-1)
        torch.testing.assert_close(values, expected.values)
        assert torch.equal(tokens, expected.indices)
        opened.extend(torch.full((3,), 5 + length))
