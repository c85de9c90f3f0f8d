"""How many operators a layer takes, and how many of them are casts: what a GPU launches one by one."""

import pytest
import torch
from tests.operators import Operators

from plugformer import create_model
from plugformer.interfaces import Tokens, evaluating

SIZES = {"vocabulary": 20, "width": 32, "heads": 4, "max_length": 32}
PARTS = {"attention": "mha", "position": "rope", "feed_forward": "gelu", "residual": "pre"}


def language_model(layers, dropout=0.1):
    return create_model("decoder-only", layers=layers, dropout=dropout, **SIZES, **PARTS)


def per_layer(few, many):
    """Returns the operators of a layer, from those of two and of four layers."""
    names = {*few, *many}
    return {name: (many[name] - few[name]) / 2 for name in names if many[name] != few[name]}


def update(layers):
    """Returns the operators of a pass forward and of one backward, on a padded batch, with bf16 autocast."""
    model = language_model(layers).train()
    batch = model.batch(outputs=[[5, 6, 7, 8, 9], [5]])
    with Operators() as forward, torch.autocast("cpu", torch.bfloat16):
        loss = model(batch)
    with Operators() as backward:
        (loss.total / loss.targets).backward()
    return forward.counts, backward.counts


def test_a_layer_forward_and_backward_in_bfloat16():
    forward, backward = (per_layer(few, many) for few, many in zip(update(2), update(4), strict=True))
    assert sum(forward.values()) <= 28, forward
    assert sum(backward.values()) <= 48, backward
    parameters = 8  # of four products: a weight and a bias each, those of query, key and value joined
    assert forward["_to_copy"] == parameters  # and no activation
    assert backward["_to_copy"] == parameters


def steps(layers, lengths):
    """Returns the operators of a step of decoding with weights of bfloat16."""
    model = language_model(layers).eval().bfloat16()
    longest = max(lengths)
    ids = torch.full((len(lengths), longest), 5)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    cache = model.decoder.start()
    token = torch.full((len(lengths), 1), 6)
    with evaluating(model):
        model.decoder(Tokens(ids, mask, full=min(lengths) == longest), cache=cache)
        for _ in range(2):
            with Operators() as counter:
                model.step(Tokens(token, torch.ones_like(token, dtype=torch.bool), full=True), cache)
    return counter.counts


@pytest.mark.parametrize("lengths", [(3, 3), (3, 1)], ids=["rows of one length", "rows of several lengths"])
def test_a_step_of_decoding_in_bfloat16(lengths):
    found = per_layer(steps(2, lengths), steps(4, lengths))
    assert sum(found.values()) <= 16, found
    assert "_to_copy" not in found
