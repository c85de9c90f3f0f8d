"""Every check of residual connections catches a fault that it is there for."""

from tests.testing.mutants import mutant_tests

from plugformer.registry import Kind
from plugformer_plugins.residual.norms import DeepNorm, PreNorm


class OneTokenOnly(PreNorm):
    """Keeps the axis of the length, but not its size."""

    def forward(self, x, sublayers):
        return super().forward(x, sublayers)[:, :1]


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


class MeanOfTokens(PreNorm):
    def forward(self, x, sublayers):
        return super().forward(x - x.mean(dim=1, keepdim=True), sublayers)


class InfiniteGain(DeepNorm):
    def __init__(self, model):
        super().__init__(model)
        self.gain = 1 / model.place.layer if model.place.layer else float("inf")


class Undecided(PreNorm):
    final_norm = None


MUTANTS = {
    "shapes": (OneTokenOnly,),
    "each_sublayer_runs_once": (RunsAttentionTwice, LeavesOutCrossAttention, TwiceInTraining),
    "every_sublayer_counts": (LeavesOutCrossAttention, IgnoresItsOutput),
    "the_stream_goes_on": (NoStream,),
    "tokens_stay_apart": (MeanOfTokens,),
    "says_what_it_needs": (InfiniteGain, Undecided),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.RESIDUAL)
