"""Beam search: equal to greedy with one beam, and to trying everything where it keeps everything."""

import itertools
import math

import pytest
import torch

from plugformer.interfaces import BEGIN, END, PADDING, Session
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy
from plugformer_testing.decoding import SCRIPTS, Script, ScriptedSession

WORDS = (4, 5, 6)


class Table(Session):
    """A Markov chain over a few words, as the model of every sentence, with a rule about what may follow."""

    every, looks = 1, True

    def __init__(self, sentences, longest, rule=lambda prefix, token: True, seed=0):
        generator = torch.Generator().manual_seed(seed)
        scores = 2 * torch.randn(sentences, 8, 7, generator=generator, dtype=torch.float64)
        self.table, self.longest, self.rule = scores.log_softmax(-1), longest, rule
        self.prefixes = [(sentence, ()) for sentence in range(sentences)]
        self.number = sentences

    def step(self, sentence, prefix):
        scores = self.table[sentence, (prefix or (7,))[-1]].clone()
        for token in range(7):
            over = len(prefix) >= self.longest and token != END
            if token in (PADDING, 1, BEGIN) or over or not self.rule(prefix, token):
                scores[token] = -math.inf
        return scores

    sentences = property(lambda self: torch.tensor([sentence for sentence, _ in self.prefixes]))
    sentence_ids = property(lambda self: list(range(self.number)))

    @property
    def log_probabilities(self):
        return torch.stack([self.step(*each) for each in self.prefixes])

    def extend(self, tokens):
        pairs = zip(self.prefixes, tokens.tolist(), strict=True)
        self.prefixes = [(sentence, (*prefix, token)) for (sentence, prefix), token in pairs]

    def select(self, rows, sentences=None):
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]


def everything(table, sentence):
    """Returns every possible output with its score."""
    outputs = itertools.chain.from_iterable(
        itertools.product(WORDS, repeat=length) for length in range(table.longest + 1)
    )
    found = {}
    for output in outputs:
        steps = [float(table.step(sentence, output[:at])[token]) for at, token in enumerate((*output, END))]
        if math.isfinite(sum(steps)):
            found[output] = sum(steps)
    return found


def two_words_that_differ(prefix, token):
    return len(prefix) == 2 if token == END else len(prefix) < 2 and token not in prefix


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("rule", [lambda prefix, token: True, two_words_that_differ])
def test_wide_enough_it_finds_everything_in_order(alpha, rule):
    table = Table(3, 3, rule)
    found = Beam(size=40, length_penalty=alpha).search(Table(3, 3, rule))  # 1 + 3 + 9 + 27 outputs
    for sentence, hypotheses in enumerate(found):
        expected = everything(table, sentence)
        ranked = sorted(expected, key=lambda each: expected[each] / (len(each) + 1) ** alpha, reverse=True)
        assert [tuple(hypothesis.tokens) for hypothesis in hypotheses] == ranked
        assert [h.score for h in hypotheses] == pytest.approx([expected[each] for each in ranked])


def test_the_length_penalty_decides_between_short_and_long():
    """0.45 > 0.55 * 0.8 = 0.44, but the geometric mean of the longer output's steps is 0.66."""
    shares = {(): {END: 0.45, 4: 0.55}, (4,): {END: 0.8, 5: 0.2}, (4, 5): {END: 1.0}}

    class Fixed(Table):
        def step(self, sentence, prefix):
            return torch.tensor([shares[prefix].get(token, 0.0) for token in range(7)]).log()

    best = [Beam(size=3, length_penalty=alpha).search(Fixed(1, 2))[0][0] for alpha in (0.0, 1.0)]
    assert [hypothesis.tokens for hypothesis in best] == [[], [4]]
    assert [hypothesis.score for hypothesis in best] == pytest.approx([math.log(0.45), math.log(0.44)])


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_one_beam_is_greedy_token_for_token_and_score_for_score(script):
    assert Beam(size=1).search(ScriptedSession(script)) == Greedy().search(ScriptedSession(script))


def test_a_sentence_is_done_when_as_many_are_finished():
    found = Beam(size=3).search(ScriptedSession(Script((0, 1, 2), (9, 9, 9), eager=4.0)))
    assert all(3 <= len(hypotheses) <= 5 for hypotheses in found)


def test_a_step_computes_live_rows_of_unfinished_sentences_only():
    session = ScriptedSession(Script((0, 1), (0, 6)))
    Beam(size=4).search(session)
    alone = ScriptedSession(Script((1,), (6,)))
    Beam(size=4).search(alone)
    assert session.computed == alone.computed <= 4 * 6


def test_hypotheses_take_the_place_of_the_one_that_they_continue():
    """So only as many rows move as are continued by none."""

    class Recorded(Table):
        moved = continued = 0

        def select(self, rows, sentences=None):
            if len(rows) == len(self.prefixes):
                self.moved += sum(row != place for place, row in enumerate(rows.tolist()))
                self.continued += len(rows.unique())
                self.rows = getattr(self, "rows", 0) + len(rows)
            super().select(rows, sentences)

    session = Recorded(4, 6)
    Beam(size=3).search(session)
    assert 0 < session.moved == session.rows - session.continued < session.rows
