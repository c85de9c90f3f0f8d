"""moe equals a loop over tokens, and its balance loss the formula of Switch Transformers."""

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BIDIRECTIONAL, Context, ModelContext, PositionalEncoding, Positions
from plugformer_plugins.feed_forward.mixture import MixtureOfExperts

MODEL = ModelContext(width=6, heads=1, ffn_width=10)


def context(length: int, *lengths: int) -> Context:
    """Returns the context of sequences of these lengths, by default of `length`."""
    real = torch.arange(length) < torch.tensor(lengths)[:, None] if lengths else None
    at = Positions.of(length, PositionalEncoding(), real)
    return Context(at, at, view=BIDIRECTIONAL)


def densely(mixture: MixtureOfExperts, x: torch.Tensor) -> torch.Tensor:
    """Runs every expert on every token, and adds up the chosen ones."""
    probabilities = (x @ mixture.router.weight.T).softmax(-1)
    every = torch.stack([expert(x, context(10)) for expert in mixture.experts], dim=2).flatten(0, 1)
    rows = []  # of (tokens, experts, width)
    for token, p in enumerate(probabilities.flatten(0, 1)):
        best = sorted(range(len(p)), key=lambda expert, p=p: -p[expert].item())[: mixture.top_k]
        rows.append(sum(p[e] * every[token, e] for e in best) / sum(p[e] for e in best))
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize(("experts", "top_k"), [(1, 1), (4, 1), (4, 2), (8, 2), (5, 5)])
def test_equals_a_dense_loop(experts, top_k):
    mixture = MixtureOfExperts(MODEL, experts=experts, top_k=top_k).double()
    x = torch.randn(2, 10, 6, dtype=torch.float64, requires_grad=True)
    actual, expected = mixture(x, context(10)), densely(mixture, x)
    torch.testing.assert_close(actual, expected)
    direction, variables = torch.randn_like(actual), [x, *mixture.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(actual, variables, direction), torch.autograd.grad(expected, variables, direction)
    )


def test_each_expert_sees_its_tokens_only():
    mixture = MixtureOfExperts(MODEL, experts=4, top_k=2)
    seen = []
    for expert in mixture.experts:
        expert.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0][0]))
    x = torch.randn(20, 6)
    mixture(x[None], context(20))
    chosen = (x @ mixture.router.weight.T).topk(2).indices
    for expert, tokens in enumerate(seen):
        assert torch.equal(tokens, x[(chosen == expert).any(dim=1)])


@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_experts_without_tokens_get_zero_gradients(tokens):
    mixture = MixtureOfExperts(MODEL, experts=8, top_k=2)
    output = mixture(torch.randn(1, tokens, 6), context(tokens))
    (output.sum() + mixture.auxiliary_loss).backward()
    assert output.shape == (1, tokens, 6)
    assert mixture.auxiliary_loss.isfinite()
    assert all(parameter.grad is not None for parameter in mixture.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in mixture.parameters())
    idle = sum(not any(p.grad.any() for p in expert.parameters()) for expert in mixture.experts)
    assert idle >= 8 - 2 * tokens


@pytest.mark.parametrize(("experts", "top_k", "balance"), [(4, 1, 0.01), (4, 2, 0.5), (8, 3, 1.0)])
def test_the_balance_loss_equals_its_formula(experts, top_k, balance):
    """Switch Transformers, equations 4 to 6, counting every choice; padding makes none."""
    mixture = MixtureOfExperts(MODEL, experts=experts, top_k=top_k, balance=balance)
    x, some = torch.randn(3, 10, 6), context(10, 10, 7, 3)
    mixture(x, some)
    probabilities = (x[some.real] @ mixture.router.weight.T).softmax(-1)
    chosen = probabilities.topk(top_k).indices.flatten().tolist()
    expected = (
        balance
        * experts
        * sum(chosen.count(e) / len(chosen) * probabilities[:, e].mean().item() for e in range(experts))
    )
    assert mixture.auxiliary_loss.item() == pytest.approx(expected)


def test_there_is_no_balance_loss_outside_training():
    mixture = MixtureOfExperts(MODEL).eval()
    mixture(torch.randn(1, 5, 6), context(5))
    assert mixture.auxiliary_loss is None


def test_more_choices_than_experts_are_refused():
    with pytest.raises(ConfigurationError, match=r"top_k 5 is more than the 4 experts .* 1 to 4:"):
        MixtureOfExperts(MODEL, experts=4, top_k=5)
