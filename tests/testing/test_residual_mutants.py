"""Every check of residual connections catches a fault that it is there for."""

from tests.testing.mutants import after, before, instead, mutant_tests

from plugformer.registry import Kind
from plugformer_plugins.residual.norms import DeepNorm, PreNorm


class RunsAttentionTwice(PreNorm):
    def forward(self, x, sublayers):
        return super().forward(sublayers["attention"].added(x, x), sublayers)


class TwiceInTraining(PreNorm):
    """As a regularization that compares two passes would."""

    def forward(self, x, sublayers):
        output = super().forward(x, sublayers)
        return (output + super().forward(x, sublayers)) / 2 if self.training else output


class LeavesOutCrossAttention(PreNorm):
    def forward(self, x, sublayers):
        known = {name: sublayers[name] for name in ("attention", "feed_forward")}
        return super().forward(x, known)


class IgnoresItsOutput(PreNorm):
    def forward(self, x, sublayers):
        for name, sublayer in sublayers.items():
            made = sublayer(self.norms[name](x))
            x = x + (made if name != "feed_forward" else made - made.detach())
        return x


class NoStream(PreNorm):
    """Feed-forward layers of old: nothing goes around a sublayer."""

    def forward(self, x, sublayers):
        for name, sublayer in sublayers.items():
            x = sublayer(self.norms[name](x))
        return x


class InfiniteGain(DeepNorm):
    def __init__(self, model):
        super().__init__(model)
        self.gain = 1 / model.place.layer if model.place.layer else float("inf")


MUTANTS = {
    "shapes": (after("OneTokenOnly", PreNorm, forward=lambda self, output, *_: output[:, :1]),),
    "each_sublayer_runs_once": (RunsAttentionTwice, LeavesOutCrossAttention, TwiceInTraining),
    "every_sublayer_counts": (LeavesOutCrossAttention, IgnoresItsOutput),
    "the_stream_goes_on": (NoStream,),
    "tokens_stay_apart": (
        before("MeanOfTokens", PreNorm, forward=lambda self, x: x - x.mean(dim=1, keepdim=True)),
    ),
    "says_what_it_needs": (InfiniteGain, instead("Undecided", PreNorm, final_norm=None)),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.RESIDUAL)
