"""Every check of decoding catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import mutant_tests

from plugformer.interfaces import END, Decoding, Hypothesis
from plugformer.registry import Kind
from plugformer_plugins.decoding.sampling import Greedy


class LosesTheLast(Greedy):
    def search(self, session):
        return super().search(session)[: max(1, len(session.sentence_ids) - 1)]


class KeepsTheEnd(Greedy):
    def search(self, session):
        found = super().search(session)
        return [[replace(h, tokens=[*h.tokens, END]) for h in outputs] for outputs in found]


class NeverLeaves(Decoding):
    """Goes on until every row has ended, extending all of them."""

    def search(self, session):
        tokens = torch.zeros(len(session.sentence_ids), 0, dtype=torch.long)
        while not (tokens == END).any(dim=1).all():
            best = session.log_probabilities.argmax(dim=-1)
            session.extend(best)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
        return [[Hypothesis(row.tolist(), 0.0)] for row in tokens]


class IgnoresLimits(Decoding):
    """Takes a token although its probability is zero."""

    def search(self, session):
        for _ in range(9):
            session.extend(torch.full((len(session.sentence_ids),), 5))
        return [[Hypothesis([5] * 9, 0.0)] for _ in session.sentence_ids]


class EndsWhenItLikes(Greedy):
    """Ends after the first token, whether it may or not."""

    def search(self, session):
        return [[replace(h, tokens=h.tokens[:1]) for h in outputs] for outputs in super().search(session)]


class ScoresWithoutEnd(Greedy):
    def search(self, session):
        return [[replace(h, score=h.score / 2) for h in outputs] for outputs in super().search(session)]


class KeepsTensors(Greedy):
    def search(self, session):
        return [
            [replace(h, score=torch.tensor(h.score)) for h in outputs] for outputs in super().search(session)
        ]


class SharpensInPlace(Greedy):
    """Changes the log-probabilities that its scores are taken from."""

    def choose(self, session):
        return session.log_probabilities.mul_(2).argmax(dim=-1)


class DrawsAnew(Greedy):
    def choose(self, session):
        return torch.distributions.Categorical(logits=session.log_probabilities).sample()


class FollowsTheFirst(Greedy):
    """Every row takes the token that is best for the batch."""

    def choose(self, session):
        scores = session.log_probabilities
        best = scores.nan_to_num(neginf=-50.0).mean(dim=0).argmax()
        allowed = scores[:, best].isfinite()
        return torch.where(allowed, best, scores.argmax(dim=-1))


class HandicapsTheFirst(Greedy):
    def choose(self, session):
        scores = session.log_probabilities.clone()
        scores[session.sentences == 0, 4] += 9.0
        return scores.argmax(dim=-1)


MUTANTS = {
    "outputs_are_possible": (LosesTheLast, KeepsTheEnd, IgnoresLimits, NeverLeaves, EndsWhenItLikes),
    "scores_are_log_probabilities": (ScoresWithoutEnd, KeepsTensors, SharpensInPlace),
    "searching_is_repeatable": (DrawsAnew,),
    "sentences_are_independent": (FollowsTheFirst, HandicapsTheFirst),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.DECODING)
