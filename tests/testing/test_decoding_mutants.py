"""Every check of decoding catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import unsound

from plugformer.interfaces import END, Decoding, Hypothesis
from plugformer.registry import Kind
from plugformer_plugins.decoding.sampling import Greedy


class RowsStay(Decoding):
    """Goes on until every row has ended, and drops none of them."""

    def search(self, session):
        tokens, scores = torch.zeros(len(session.sentence_ids), 0, dtype=torch.long), 0.0
        while not session.finished.all():
            score, best = session.log_probabilities.max(dim=-1)
            scores = scores + score.masked_fill(session.finished, 0.0)
            session.extend(best)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
        return [
            [Hypothesis(self.output(row.tolist()), score.item())]
            for row, score in zip(tokens, scores, strict=True)
        ]

    def output(self, tokens):
        return tokens[: tokens.index(END)]


class FollowsTheFirst(Greedy):
    """Every row takes the token that is best for the batch."""

    def choose(self, session):
        scores = session.log_probabilities
        best = scores.nan_to_num(neginf=-50.0).mean(dim=0).argmax()
        allowed = scores[:, best].isfinite()
        return scored(session, torch.where(allowed, best, scores.argmax(dim=-1)))


class KeepsWhatItLooksAt(Greedy):
    """Keeps the tokens of the steps at which it looks, and loses those between."""

    def search(self, session):
        found = super().search(session)
        return [[replace(each, tokens=each.tokens[:: session.every]) for each in beam] for beam in found]


def scored(session, tokens):
    """Returns tokens and their log-probabilities."""
    return tokens, session.log_probabilities.gather(1, tokens[:, None])[:, 0]


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
    "outputs_are_possible": instead("KeepsEnd", RowsStay, output=lambda self, tokens: tokens),
    "scores_are_log_probabilities": altered(
        "ScoresWithoutEnd", lambda output: replace(output, score=output.score / 2)
    ),
    "searching_is_repeatable": choosing(
        "DrawsAnew", lambda scores: torch.distributions.Categorical(logits=scores).sample()
    ),
    "looking_seldom_changes_nothing": KeepsWhatItLooksAt,
    "sentences_are_independent": FollowsTheFirst,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.DECODING)


def test_finished_rows_may_stay():
    assert not unsound(RowsStay)
