"""Heads that compare the vectors of two texts, by hand."""

from math import exp, log

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import HeadContext, HeadInput, Input
from plugformer_plugins.head.pairs import Contrastive, CosineRegressor

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=1, inputs=(Input("first"), Input("second")))
HIDDEN = torch.tensor([[[2.0, 0.0], [0.6, 0.8]], [[0.0, 3.0], [0.0, 1.0]]])
"""Cosines of first and second texts: 0.6 and 0 of the first pair's first, 0.8 and 1 of the second's."""
REAL = torch.ones(2, 2, dtype=torch.bool)
COSINES = ((0.6, 0.0), (0.8, 1.0))


def found(head, targets):
    targets = torch.tensor(targets)
    loss, count = head.loss(HIDDEN, targets, HeadInput(REAL))
    likelihoods = head.likelihoods(HIDDEN, targets, HeadInput(REAL))
    assert loss.item() == pytest.approx(likelihoods.losses.sum().item(), rel=1e-6)
    assert count.item() == likelihoods.targets.sum().item() == 2
    assert likelihoods.log_probabilities is None
    assert likelihoods.correct is None
    return likelihoods.losses.tolist()


def cross_entropy(right, other, temperature):
    return log(1 + exp((other - right) / temperature))


def test_each_text_is_found_among_those_of_the_batch():
    (own, across), (back, other) = COSINES
    head = Contrastive(MODEL, temperature=0.5, symmetric=False)
    forth = [cross_entropy(own, across, 0.5), cross_entropy(other, back, 0.5)]
    assert found(head, [[1, 2], [3, 4]]) == pytest.approx(forth, rel=1e-5)
    both = [cross_entropy(own, back, 0.5), cross_entropy(other, across, 0.5)]
    expected = [(one + two) / 2 for one, two in zip(forth, both, strict=True)]
    assert found(Contrastive(MODEL, temperature=0.5), [[1, 2], [3, 4]]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("targets", [[[1, 2], [3, 2]], [[1, 2], [1, 4]], [7, 7]])
def test_a_pair_with_an_equal_text_is_no_negative(targets):
    assert found(Contrastive(MODEL), targets) == [0.0, 0.0]


def test_a_number_is_linear_in_the_cosine():
    head = CosineRegressor(MODEL)
    assert head.logits(HIDDEN, HeadInput(REAL)).flatten().tolist() == pytest.approx([0.6, 1.0])
    with torch.no_grad():
        head.slope.fill_(2.0)
        head.intercept.fill_(-1.0)
    assert found(head, [1.0, 0.0]) == pytest.approx([0.8**2, 1.0], rel=1e-5)


@pytest.mark.parametrize("inputs", [(Input(),), (Input("question"), Input("choices", many=True))])
def test_other_inputs_are_refused(inputs):
    with pytest.raises(ConfigurationError, match="two inputs"):
        Contrastive(HeadContext(width=2, heads=1, ffn_width=1, outputs=1, inputs=inputs))
