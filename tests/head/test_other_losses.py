"""Losses that are no cross-entropy: a subclass that overrides `losses`, with and without probabilities."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.interfaces import HeadContext, HeadInput
from plugformer.validation import validate
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.token_classifier import TokenClassifier

MODEL = HeadContext(width=2, heads=1, ffn_width=1, outputs=3)


class Squared(LanguageModel):
    """The squares of the cross-entropies."""

    def losses(self, logits, targets):
        return super().losses(logits, targets).square()


class Hinge(TokenClassifier):
    """The sum of margins that are less than 1: Weston and Watkins 1999."""

    probabilities = False

    def losses(self, logits, targets):
        right = logits.gather(1, targets[:, None])
        return (1 + logits - right).clamp(min=0).sum(dim=1) - 1


@pytest.mark.parametrize("training", [True, False])
def test_losses_replace_the_fused_cross_entropy(training):
    head = Squared(MODEL).train(training)
    hidden, targets = torch.randn(2, 3, 2), torch.randint(3, (2, 3))
    real = torch.tensor([[True, True, False], [True, True, True]])
    context = HeadInput(real)
    plain = cross_entropy(head.logits(hidden, context)[real], targets[real], reduction="none")
    loss, count = head.loss(hidden, targets, context)
    torch.testing.assert_close(loss, plain.square().sum())
    assert count == 5
    found = head.likelihoods(hidden, targets, context)
    torch.testing.assert_close(found.losses.sum(), loss)
    torch.testing.assert_close(found.log_probabilities.sum(), -plain.sum())


def test_metrics_of_probabilities_need_a_head_that_has_them(registry, monkeypatch):
    monkeypatch.setenv("PLUGFORMER_DATA", "data")
    known = registry.with_components({"head": {"hinge": Hinge}})
    metrics = "evaluation.metrics=[tag_accuracy, token_accuracy, perplexity]"
    resolved = resolve("ud-ewt", overrides=["model.head=hinge", metrics], registry=known)
    expected = r"evaluation\.metrics\.2: metric 'perplexity' needs .* head 'hinge' lacks.*'token_classifier'"
    with pytest.raises(ConfigurationError, match=expected) as raised:
        validate(resolved, data=False)
    assert "metrics.1" not in str(raised.value)
