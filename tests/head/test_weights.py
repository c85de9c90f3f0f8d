"""Weights of targets: from the task type that draws them to the loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import plugformer
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import UNKNOWN, HeadContext, HeadInput, Ragged
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.token_classifier import TokenClassifier
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_testing.small import SmallTask

EXAMPLES = {"text": ["the quick brown fox", "a dog", "over and over again"]}


class MaskedDiffusion(MaskedLanguageModelling):
    """Hides each token with the probability t of its text, whose weight is 1 / t."""

    def draw(self, encoded, generators):
        lengths = encoded.input.lengths
        times = np.array([generator.uniform(0.1, 1) for generator in generators])
        draws = [generator.random(length) for generator, length in zip(generators, lengths, strict=True)]
        hidden = np.concatenate(draws) < np.repeat(times, lengths)
        given = Ragged(np.where(hidden, UNKNOWN, encoded.input.values), lengths)
        return replace(
            encoded, inputs={"input": given}, targets=encoded.input.only(hidden), weights=1 / times
        )


class Ramp(MaskedLanguageModelling):
    """Weighs each token by its place."""

    def draw(self, encoded, generators):
        found = super().draw(encoded, generators)
        places = np.concatenate([np.arange(length) for length in encoded.input.lengths])
        return replace(found, weights=Ragged(places.astype(float), encoded.input.lengths))


class OfTokens(Classification):
    """Weighs tokens at a level where none has a target."""

    def draw(self, encoded, generators):
        return replace(encoded, weights=encoded.input)


def model_of(head="language_model"):
    torch.manual_seed(1)
    sizes = {"width": 8, "heads": 2, "ffn_width": 8, "layers": 1, "dropout": 0.0}
    return plugformer.create_model(
        "encoder-only", level="token", vocabulary=90, outputs=90, head=head, **sizes
    )


@pytest.mark.parametrize("head", ["language_model", "token_classifier"])
@pytest.mark.parametrize("task_type", [MaskedDiffusion, Ramp])
@pytest.mark.parametrize("training", [True, False])
def test_a_loss_is_the_sum_of_weighted_losses(head, task_type, training):
    batch = SmallTask(task_type(), EXAMPLES).split().batch([0, 1, 2])
    assert batch.weights.shape == (batch.targets.shape if task_type is Ramp else (3,))
    model = model_of(head).train(training)
    loss, plain = model(batch), model(replace(batch, weights=None))
    targets, real = model.targets(batch)
    each = torch.nn.functional.cross_entropy(model.logits(batch).mT, targets, reduction="none")
    weights = batch.weights if task_type is Ramp else batch.weights[:, None].expand_as(each)
    torch.testing.assert_close(loss.total, (each * weights)[real].sum())
    torch.testing.assert_close(plain.total, each[real].sum())
    assert loss.targets == plain.targets == real.sum()
    weighted, found = model.likelihoods(batch), model.likelihoods(replace(batch, weights=None))
    torch.testing.assert_close(weighted.losses.sum(), loss.total)
    assert torch.equal(weighted.log_probabilities, found.log_probabilities)


def test_a_weight_is_where_its_target_is():
    batch = SmallTask(Ramp(), EXAMPLES).split().batch([0, 1, 2], lengths=[40])
    assert batch.weights[0, 1 : 1 + 3].tolist() == [0, 1, 2]  # behind BEGIN
    assert batch.weights.shape == batch.source.ids.shape


def test_weights_of_tokens_need_targets_of_tokens():
    with pytest.raises(RegistryError, match=r"OfTokens: .* returns weights of tokens at level sequence"):
        SmallTask(OfTokens(), {"text": ["a b", "c"], "label": ["yes", "no"]}).split().batch([0])


@pytest.mark.parametrize("kind", [LanguageModel, TokenClassifier])
def test_smoothing_and_weights_go_together(kind):
    model = HeadContext(width=4, heads=1, ffn_width=1, outputs=5)
    head = kind(model, label_smoothing=0.2).train()
    hidden, targets = torch.randn(2, 3, 4), torch.randint(5, (2, 3))
    real, weights = torch.tensor([[True, True, False], [True, True, True]]), torch.rand(2, 3)
    loss, _ = head.loss(hidden, targets, HeadInput(real, weights=weights))
    each = torch.nn.functional.cross_entropy(
        head.logits(hidden, HeadInput(real)).mT, targets, reduction="none", label_smoothing=0.2
    )
    torch.testing.assert_close(loss, (each * weights)[real].sum())


def test_one_loss_for_several_targets_has_one_weight():
    context = HeadInput(torch.ones(2, 3, dtype=torch.bool), weights=torch.ones(2, 3))
    with pytest.raises(ConfigurationError, match=r"a weight of its own, \(2, 3\)"):
        context.weighted(torch.ones(2))
