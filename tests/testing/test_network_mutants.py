"""Every check of feed-forward networks and of norms catches a fault that it is there for."""

import torch
from tests.testing.mutants import mutant_tests
from torch import nn
from torch.nn import functional

from plugformer.registry import Kind
from plugformer_plugins.feed_forward.mixture import MixtureOfExperts
from plugformer_plugins.feed_forward.networks import GELU
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


MUTANTS = {
    "shapes": (NeedsTokens, MatricesOnly),
    "each_token_is_alone": (SharesOneMean, LearnsFromOthers, ReadsTheTokenBefore, WrongAxis),
    "the_ffn_width_is_honored": (FixedFFNWidth,),
    "an_auxiliary_loss_is_a_scalar": (UnbalancedWithoutTokens,),
    "last_map_is_linear": (MapsTwice,),
    "training_mode_changes_nothing": (DropsItself, BatchNorm),
    "the_scale_is_taken_out": (NoNorm,),
    "directions_are_kept_apart": (IgnoresTheLast,),
    "constant_tokens_are_harmless": (WithoutEpsilon,),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS,
    Kind.FEED_FORWARD,
    Kind.NORM,
    raising=(
        NeedsTokens,
        MatricesOnly,
    ),
)
