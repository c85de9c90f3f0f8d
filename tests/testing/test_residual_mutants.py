"""Every check of residual connections catches a fault that it is there for."""

from tests.testing.mutants import mutant_tests

from plugformer.kinds import Kind
from plugformer_plugins.residual.deepnorm import DeepNorm
from plugformer_plugins.residual.norms import PreNorm


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


MUTANTS = [
    (OneTokenOnly, "shapes", r"has shape \(2, 1, 24\), the input \(2, 3, 24\)"),
    (RunsAttentionTwice, "each_sublayer_runs_once", "attention runs 2 times: what it appends to a cache"),
    (LeavesOutCrossAttention, "each_sublayer_runs_once", "cross_attention does not run"),
    (TwiceInTraining, "no_sublayer_runs_twice_in_training", "attention runs 2 times"),
    (LeavesOutCrossAttention, "every_sublayer_counts", "no difference what cross_attention puts out"),
    (IgnoresItsOutput, "every_sublayer_counts", "no difference what feed_forward puts out"),
    (NoStream, "the_stream_goes_on", "does not reach the output but through sublayers"),
    (MeanOfTokens, "tokens_stay_apart", "depends on other tokens though no sublayer reads them"),
    (InfiniteGain, "says_what_it_needs", "gain is inf, expected a finite number"),
    (Undecided, "says_what_it_needs", "final_norm is None, expected a bool"),
]


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.RESIDUAL)
