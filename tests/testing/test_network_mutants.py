"""Every check of feed-forward networks and of norms catches a fault that it is there for."""

from tests.testing.mutants import after, before, fault_test, instead
from torch import nn
from torch.nn import functional

from plugformer.registry import Kind
from plugformer_plugins.feed_forward.mixture import MixtureOfExperts
from plugformer_plugins.feed_forward.networks import GELU
from plugformer_plugins.norm.norms import LayerNorm, RMSNorm


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


def balance(self, probabilities, chosen, real):
    """Counts padding, too."""
    return MixtureOfExperts._balance_loss(self, probabilities, chosen, None)


MUTANTS = {
    "shapes": before("MatricesOnly", RMSNorm, forward=lambda self, x: x[:, :]),
    "each_token_is_alone": WrongAxis,
    "the_ffn_width_is_honored": FixedFFNWidth,
    "an_auxiliary_loss_is_a_scalar": instead("BalancesPadding", MixtureOfExperts, _balance_loss=balance),
    "training_mode_changes_nothing": after(
        "Drops", GELU, forward=lambda self, output, *_: functional.dropout(output, 0.5, self.training)
    ),
    "constant_tokens_are_harmless": WithoutEpsilon,
}


test_every_check_catches_a_fault = fault_test(
    MUTANTS, Kind.FEED_FORWARD, Kind.NORM, raising=("MatricesOnly",)
)
