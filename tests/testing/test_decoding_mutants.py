"""Every check of decoding catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import after, instead, mutant_tests

from plugformer.interfaces import END, Decoding, Hypothesis
from plugformer.registry import Kind
from plugformer_plugins.decoding.sampling import Greedy


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


class FollowsTheFirst(Greedy):
    """Every row takes the token that is best for the batch."""

    def choose(self, session):
        scores = session.log_probabilities
        best = scores.nan_to_num(neginf=-50.0).mean(dim=0).argmax()
        allowed = scores[:, best].isfinite()
        return scored(session, torch.where(allowed, best, scores.argmax(dim=-1)))


class HandicapsTheFirst(Greedy):
    def choose(self, session):
        scores = session.log_probabilities.clone()
        scores[session.sentences == 0, 4] += 9.0
        return scored(session, scores.argmax(dim=-1))


class KeepsWhatItLooksAt(Greedy):
    """Keeps the tokens of the steps at which it looks, and loses those between."""

    def search(self, session):
        found = super().search(session)
        return [[replace(each, tokens=each.tokens[:: session.every]) for each in beam] for beam in found]


def scored(session, tokens):
    """Returns tokens and their log-probabilities."""
    return tokens, session.log_probabilities.gather(1, tokens[:, None])[:, 0]


def sharpened(self, session):
    """Returns the best tokens, with the squares of their probabilities."""
    best, tokens = session.top(1)
    return tokens[:, 0], 2 * best[:, 0]


def altered(name, change):
    """Returns a greedy search of which each hypothesis is changed."""
    return after(
        name, Greedy, search=lambda self, found, _: [[change(each) for each in beam] for beam in found]
    )


def choosing(name, choose):
    return instead(
        name, Greedy, choose=lambda self, session: scored(session, choose(session.log_probabilities))
    )


MUTANTS = {
    "outputs_are_possible": (
        after("LosesTheLast", Greedy, search=lambda self, found, _: found[: max(1, len(found) - 1)]),
        altered("KeepsTheEnd", lambda output: replace(output, tokens=[*output.tokens, END])),
        altered("EndsWhenItLikes", lambda output: replace(output, tokens=output.tokens[:1])),
        IgnoresLimits,
        NeverLeaves,
    ),
    "scores_are_log_probabilities": (
        altered("ScoresWithoutEnd", lambda output: replace(output, score=output.score / 2)),
        altered("KeepsTensors", lambda output: replace(output, score=torch.tensor(output.score))),
        instead("SharpensScores", Greedy, choose=sharpened),
    ),
    "searching_is_repeatable": (
        choosing("DrawsAnew", lambda scores: torch.distributions.Categorical(logits=scores).sample()),
    ),
    "looking_seldom_changes_nothing": (KeepsWhatItLooksAt,),
    "sentences_are_independent": (FollowsTheFirst, HandicapsTheFirst),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.DECODING)
