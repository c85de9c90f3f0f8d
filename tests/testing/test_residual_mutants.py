"""Every check of residual connections catches a fault that it is there for."""

import pytest
from tests.taking import BySequence, ByToken
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import unsound

from plugformer.registry import Kind
from plugformer_plugins.residual.norms import PreNorm


class LeavesOutCrossAttention(PreNorm):
    def forward(self, x, sublayers):
        known = {name: sublayers[name] for name in ("attention", "feed_forward")}
        return super().forward(x, known)


class PaddingIsCounted(BySequence):
    def chosen(self, scores, real):
        return super().chosen(scores, real | True)


class HalfOfEachPiece(BySequence):
    """Of a step of decoding it takes the only token."""

    takes = "by token"


class Together(ByToken):
    """Sublayers compute tokens moved together in order; it leaves it to the layer to see which are real."""

    def chosen(self, scores, real):
        return (scores > 0) | ~real

    def most(self, length):
        return length


MUTANTS = {
    "shapes": after("OneTokenOnly", PreNorm, forward=lambda self, output, *_: output[:, :1]),
    "each_sublayer_runs_once": LeavesOutCrossAttention,
    "every_sublayer_counts": LeavesOutCrossAttention,
    "tokens_stay_apart": HalfOfEachPiece,
    "takes_what_it_says": instead("Undeclared", ByToken, takes="all"),
    "rows_are_independent": PaddingIsCounted,
    "models_keep_their_contract": HalfOfEachPiece,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.RESIDUAL)


@pytest.mark.parametrize("residual", [ByToken, BySequence, Together])
def test_some_tokens_are_taken(residual):
    assert not {*MUTANTS} & {*unsound(residual)}
