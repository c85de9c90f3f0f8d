"""Linear attentions keep the contract, and follow their formulas."""

import pytest
import torch

from plugformer import components, create, create_model
from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, Context, ModelContext, Place, PositionalEncoding, Positions, Tokens
from plugformer_testing import parametrize_with_checks

NAMES = [entry.name for entry in components("attention") if entry.distribution == "plugformer-fla"]
MODEL = ModelContext(width=24, heads=4, ffn_width=40, place=Place(stack="decoder", view=CAUSAL))


@parametrize_with_checks("attention/fla_gated_delta_net")
def test_contract(check):
    check()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_trains_and_decodes(name):
    sizes = {"vocabulary": 20, "width": 24, "heads": 4, "layers": 2, "max_length": 8}
    model = create_model("decoder-only", attention=name, position="none", **sizes)
    ids, real = torch.randint(4, 20, (2, 5)), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    loss = model(model.batch(outputs=ids.tolist()))
    loss.total.backward()
    assert all(
        values.grad.isfinite().all() for values in model.decoder.parameters() if values.grad is not None
    )
    with torch.no_grad():
        expected, cache = model.eval().decoder(Tokens(ids, real)), model.decoder.start()
        steps = [Tokens(ids[:, n : n + 1], real[:, n : n + 1]) for n in range(5)]
        found = torch.cat([model.decoder(step, cache=cache) for step in steps], dim=1)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_tells_its_source(name):
    (entry,) = (entry for entry in components("attention") if entry.name == name)
    assert entry.source.startswith("https://arxiv.org/abs/")


def test_the_gated_delta_rule_is_its_formula():
    """S_t = S_{t-1} (α_t (I - β_t k_t k_t^T)) + β_t v_t k_t^T: equation 10 of https://arxiv.org/abs/2412.06464."""
    torch.manual_seed(0)
    attention = create("attention", "fla_gated_delta_net", MODEL)
    x, at = torch.randn(1, 7, 24), Positions.of(7, PositionalEncoding())
    found = attention(x, Context(at, at, view=CAUSAL))
    width, rows = 6, []
    query, key = (
        torch.nn.functional.silu(part(x[0])).view(7, 4, width) for part in (attention.query, attention.key)
    )
    query, key = (each / each.norm(dim=-1, keepdim=True) for each in (query, key))
    value = attention.value(x[0]).view(7, 4, width)
    alpha, beta = attention.decay(x[0]).sigmoid() ** (1 / 16), attention.share(x[0]).sigmoid()
    for head in range(4):
        state, read = torch.zeros(width, width), []
        for t in range(7):
            k, v = key[t, head], value[t, head]
            erased = torch.eye(width) - beta[t, head] * torch.outer(k, k)
            state = state @ (alpha[t, head] * erased) + beta[t, head] * torch.outer(v, k)
            read.append(state @ query[t, head] / width**0.5)
        rows.append(attention.norm(torch.stack(read)))
    torch.testing.assert_close(found[0], attention.output(torch.cat(rows, dim=-1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [Place(), Place(stack="decoder", cross=True)])
def test_places_without_an_order_are_refused(place):
    with pytest.raises(ConfigurationError, match="reads what came before"):
        create("attention", "fla_gla", ModelContext(width=24, heads=4, ffn_width=8, place=place))
