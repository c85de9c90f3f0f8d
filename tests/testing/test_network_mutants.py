"""Every check of feed-forward networks and of norms catches a fault that it is there for."""

import torch
from tests.testing.mutants import mutant_tests
from torch import nn
from torch.nn import functional

from plugformer.kinds import Kind
from plugformer_plugins.feed_forward.mixture import MixtureOfExperts
from plugformer_plugins.feed_forward.position_wise import GELU
from plugformer_plugins.norm.norms import LayerNorm, RMSNorm


class NeedsTokens(GELU):
    def forward(self, x):
        return super().forward(x) + 0 * x.amax()


class SharesOneMean(GELU):
    def forward(self, x):
        return super().forward(x - x.mean(dim=0, keepdim=True))


class LearnsFromOthers(GELU):
    def forward(self, x):
        return super().forward(x) + (x.sum(dim=0) - x.sum(dim=0).detach())


class ReadsTheTokenBefore(GELU):
    """A convolution: harmless for one token."""

    def forward(self, x):
        return super().forward(x + x.roll(1, 0))


class FixedFFNWidth(GELU):
    def __init__(self, model):
        super().__init__(model)
        self.up, self.down = nn.Linear(model.width, 16), nn.Linear(16, model.width)


class UnbalancedWithoutTokens(MixtureOfExperts):
    def _balance_loss(self, probabilities, chosen):
        return probabilities.mean()


class MapsTwice(GELU):
    residual_path = ("down", "up")


class DropsItself(GELU):
    def forward(self, x):
        return functional.dropout(super().forward(x), 0.5, self.training)


class MatricesOnly(RMSNorm):
    def forward(self, x):
        rows, _ = x.shape
        return super().forward(x.view(rows, -1))


class WrongAxis(LayerNorm):
    """Normalizes over the tokens."""

    def forward(self, x):
        if x.dim() == 1:
            return super().forward(x)
        return (x - x.mean(dim=-2, keepdim=True)) / (
            x.var(dim=-2, unbiased=False, keepdim=True) + 1e-5
        ).sqrt()


class BatchNorm(RMSNorm):
    """Keeps a scale of what it saw in training."""

    def forward(self, x):
        return super().forward(x) * (1.1 if self.training else 1.0)


class NoNorm(RMSNorm):
    def forward(self, x):
        return x * self.weight


class IgnoresTheLast(RMSNorm):
    def forward(self, x):
        return super().forward(torch.cat([x[..., :-1], torch.ones_like(x[..., :1])], dim=-1))


class WithoutEpsilon(LayerNorm):
    def forward(self, x):
        centered = x - x.mean(dim=-1, keepdim=True)
        return centered / centered.square().mean(dim=-1, keepdim=True).sqrt() * self.weight


MUTANTS = [
    (NeedsTokens, "shapes", r"raised RuntimeError: amax.*\[smallest case: \(0, 24\)\]"),
    (SharesOneMean, "each_token_is_alone", "the network is not position-wise"),
    (LearnsFromOthers, "tokens_do_not_exchange_gradients", "is not position-wise"),
    (ReadsTheTokenBefore, "the_order_of_tokens_does_not_matter", "depend on the order"),
    (FixedFFNWidth, "the_ffn_width_is_honored", "with feed-forward width 20"),
    (UnbalancedWithoutTokens, "an_auxiliary_loss_is_a_scalar", "of 0 tokens is not finite"),
    (MapsTwice, "last_map_is_linear", "up, the last of residual_path, is not what"),
    (DropsItself, "training_mode_changes_nothing", "other outputs than evaluation mode"),
    (MatricesOnly, "shapes", r"raised ValueError.*\[smallest case: \(24,\)\]"),
    (WrongAxis, "each_token_is_alone", "the norm is not over the last axis only"),
    (BatchNorm, "training_mode_changes_nothing", "other outputs than evaluation mode"),
    (NoNorm, "the_scale_is_taken_out", "its scale is not taken out"),
    (IgnoresTheLast, "directions_are_kept_apart", "does not reach the output"),
    (WithoutEpsilon, "constant_tokens_are_harmless", "a constant token gives NaN"),
]


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.FEED_FORWARD, Kind.NORM)
