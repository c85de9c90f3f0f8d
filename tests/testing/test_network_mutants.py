"""Every check of feed-forward networks and of norms catches a fault that it is there for."""

import torch
from tests.testing.mutants import after, before, instead, mutant_tests
from torch import nn
from torch.nn import functional

from plugformer.registry import Kind
from plugformer_plugins.feed_forward.mixture import MixtureOfExperts
from plugformer_plugins.feed_forward.networks import GELU
from plugformer_plugins.norm.norms import LayerNorm, RMSNorm
from plugformer_testing import check


class FixedFFNWidth(GELU):
    def __init__(self, model):
        super().__init__(model)
        self.up, self.down = nn.Linear(model.width, 16), nn.Linear(16, model.width)


class WrongAxis(LayerNorm):
    """Normalizes over the tokens."""

    def forward(self, x):
        if x.dim() == 1:
            return super().forward(x)
        variance = x.var(dim=-2, unbiased=False, keepdim=True)
        return (x - x.mean(dim=-2, keepdim=True)) / (variance + 1e-5).sqrt()


class WithoutEpsilon(LayerNorm):
    def forward(self, x):
        centered = x - x.mean(dim=-1, keepdim=True)
        return centered / centered.square().mean(dim=-1, keepdim=True).sqrt() * self.weight


def unbalanced(self, probabilities, chosen, real):
    """Returns a loss that no tokens make NaN."""
    return probabilities.mean()


def balance(self, probabilities, chosen, real):
    """Counts padding, too."""
    return MixtureOfExperts._balance_loss(self, probabilities, chosen, None)


MUTANTS = {
    "shapes": (
        after("NeedsTokens", GELU, forward=lambda self, output, x, _: output + 0 * x.amax()),
        before("MatricesOnly", RMSNorm, forward=lambda self, x: x[:, :]),
    ),
    "each_token_is_alone": (
        before("SharesOneMean", GELU, forward=lambda self, x: x - x.mean(dim=(0, 1), keepdim=True)),
        after("LearnsFromOthers", GELU, forward=lambda self, y, x, _: y + (x - x.detach()).sum(dim=(0, 1))),
        before("ReadsTheTokenBefore", GELU, forward=lambda self, x: x + x.roll(1, 1)),
        WrongAxis,
    ),
    "the_ffn_width_is_honored": (FixedFFNWidth,),
    "an_auxiliary_loss_is_a_scalar": (
        instead("UnbalancedWithoutTokens", MixtureOfExperts, _balance_loss=unbalanced),
    ),
    "padding_is_left_out": (
        instead("BalancesPadding", MixtureOfExperts, _balance_loss=balance),
        after(
            "NothingAtPadding",
            GELU,
            forward=lambda self, y, x, at: y if at.real is None else y / at.real[..., None],
        ),
        after("CountsPadding", GELU, forward=lambda self, y, x, at: y * at.query.length),
    ),
    "exports": (
        after("LooksAtValues", GELU, forward=lambda self, y, x, _: y if x.amax() < 1e9 else 2 * y),
        after("KnowsTheBatch", GELU, forward=lambda self, y, x, _: y[: len(x)]),
        after("Other", RMSNorm, forward=lambda self, y, x: y * (2 if torch.compiler.is_exporting() else 1)),
    ),
    "keeps_the_format": (
        after("InFloat32", GELU, forward=lambda self, y, x, _: y.float() if x.dtype == torch.bfloat16 else y),
        after("OfItsWeight", RMSNorm, forward=lambda self, y, x: y.to(self.weight.dtype)),
    ),
    "last_map_is_linear": (instead("MapsTwice", GELU, residual_path=("down", "up")),),
    "training_mode_changes_nothing": (
        after("Drops", GELU, forward=lambda self, output, *_: functional.dropout(output, 0.5, self.training)),
        after("BatchNorm", RMSNorm, forward=lambda self, output, _: output * (1.1 if self.training else 1)),
    ),
    "the_scale_is_taken_out": (instead("NoNorm", RMSNorm, forward=lambda self, x: x * self.weight),),
    "directions_are_kept_apart": (
        before(
            "IgnoresTheLast",
            RMSNorm,
            forward=lambda self, x: torch.cat([x[..., :-1], 0 * x[..., :1] + 1], -1),
        ),
    ),
    "constant_tokens_are_harmless": (WithoutEpsilon,),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.FEED_FORWARD, Kind.NORM, raising=("NeedsTokens", "MatricesOnly")
)


def test_an_exception_without_tokens_says_that_there_are_none():
    def forward(self, output, x, context):
        return output + 0 * x.max()

    (outcome,) = check(after("Largest", GELU, forward=forward), only="an_auxiliary_loss_is_a_scalar").outcomes
    assert outcome.message.startswith("raised in training, with no tokens at all, RuntimeError")


def test_a_size_that_is_fixed_while_it_is_traced_is_reported_with_its_line():
    def forward(self, output, x, context):
        return output if len(x.flatten(0, 1)) else x

    (outcome,) = check(after("Decides", GELU, forward=forward), only="exports").outcomes
    assert "Guard failed" in outcome.message
    assert f"; in {__file__}:{forward.__code__.co_firstlineno + 1} Python" in outcome.message
