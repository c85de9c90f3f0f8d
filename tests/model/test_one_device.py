"""Models compute on the device that they lie on: no tensor of a pass is made on another one.

No GPU is needed: see `tests/apple.py`.
"""

import pytest
import torch
from tests.apple import MPS, apple_gpu
from tests.batches import pairs

from plugformer.interfaces import AllowedOutputs, Session
from plugformer.registry import Kind

LONGEST = 4


SOURCES = [[5, 6, 7, 8], [9], [4, 11]]
TARGETS = [[6, 5], [8, 7, 4], [10]]
ALLOWED = AllowedOutputs(40, max_length=LONGEST)


def answers(model, registry, search, device):
    options = {"seed": 5} if search == "sampling" else {}
    batch = pairs(SOURCES, rows=[0, 1, 2]).to(device)
    session = Session(model, batch, ALLOWED, [0, 1, 2])
    found = registry.create(Kind.DECODING, search, **options).search(session)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


def test_the_loss_of_every_part(tiny_model, any_parts):
    """It depends on every parameter, or processes that share an update would wait for a gradient."""
    settings = [each for each in any_parts if each.startswith("model.")]
    model, batch = tiny_model(*settings).train(), pairs(SOURCES, TARGETS)
    with apple_gpu():
        there = tiny_model(*settings).train().to(MPS)
        found = there(batch.to(MPS))
        assert found.total.device == MPS
        (found.total + found.auxiliary).backward()
    torch.testing.assert_close(found.total.inner, model(batch).total.detach())
    assert [name for name, each in there.named_parameters() if each.grad is None] == []
    assert {each.grad.device for each in there.parameters()} == {MPS}


def assert_answers_are_the_same(tiny_model, registry, setting, search="beam"):
    with torch.no_grad():
        expected = answers(tiny_model(setting).eval(), registry, search, "cpu")
        with apple_gpu():
            there = tiny_model(setting).eval().to(MPS)
            assert answers(there, registry, search, MPS) == expected


def test_decoding_with_every_attention(tiny_model, registry, any_attention):
    assert_answers_are_the_same(tiny_model, registry, f"model.attention={any_attention}")


def test_decoding_with_every_position(tiny_model, registry, any_position):
    assert_answers_are_the_same(tiny_model, registry, f"model.position={any_position}")


@pytest.mark.parametrize("search", ["greedy", "sampling"])
def test_other_searches(tiny_model, registry, search):
    assert_answers_are_the_same(tiny_model, registry, "model.attention=mha", search)
