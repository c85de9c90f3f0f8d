"""The contract of decoding components: see plugformer.interfaces.decoding."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import BEGIN, END, PADDING, Decoding, Hypothesis, Session
from plugformer_testing.check import check, fail, require
from plugformer_testing.subject import Subject

VOCABULARY = 9

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Script:
    """Made-up probabilities of next tokens, for a batch of sentences.

    Attributes:
        sentence_ids: Each sentence's number; different sentences have different probabilities.
        limits: Longest output of each.
        eager: Added to the score of END: how soon outputs end.
        exact: Whether outputs have their longest length, and even and odd tokens take turns: a constraint.
    """

    sentence_ids: tuple[int, ...]
    limits: tuple[int, ...]
    eager: float = 0.0
    exact: bool = False

    def __str__(self) -> str:
        bound = "exactly" if self.exact else "at most"
        return f"{len(self.sentence_ids)} sentences of {bound} {', '.join(map(str, self.limits))} tokens"

    def log_probabilities(self, sentence: int, prefix: Prefix) -> Float[Tensor, " vocabulary"]:
        """Returns the next token's, which the sentence's number and the prefix decide."""
        digest = hashlib.sha256(f"{self.sentence_ids[sentence]}/{prefix}".encode()).digest()
        scores = torch.tensor([byte / 40 for byte in digest[:VOCABULARY]])
        scores[END] += self.eager
        scores[[PADDING, BEGIN]] = -torch.inf
        if len(prefix) >= self.limits[sentence]:
            scores[torch.arange(VOCABULARY) != END] = -torch.inf
        log_probabilities = scores.log_softmax(dim=-1)
        if self.exact and len(prefix) < self.limits[sentence]:
            log_probabilities[END] = -torch.inf
            log_probabilities[len(prefix) % 2 :: 2] = -torch.inf
        return log_probabilities

    def score(self, sentence: int, tokens: list[int]) -> float:
        """Returns the logarithm of the probability of a whole output."""
        steps = [*tokens, END]
        return sum(
            float(self.log_probabilities(sentence, tuple(steps[:number]))[token])
            for number, token in enumerate(steps)
        )


@dataclass
class ScriptedSession(Session):
    """A session that follows a script instead of a model, and notes what is done to it."""

    script: Script
    rows: list[tuple[int, Prefix]] = field(init=False)
    computed: int = 0
    _log_probabilities: Float[Tensor, "rows vocabulary"] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [(sentence, ()) for sentence in range(len(self.script.sentence_ids))]
        self._log_probabilities = self._next()

    @property
    def sentences(self) -> Int[Tensor, " rows"]:
        """The sentence that each row belongs to."""
        return torch.tensor([sentence for sentence, _ in self.rows], dtype=torch.long)

    @property
    def sentence_ids(self) -> list[int]:
        """Each sentence's number in the whole input."""
        return list(self.script.sentence_ids)

    @property
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities: as of a model, one tensor for each step."""
        return self._log_probabilities

    def _next(self) -> Float[Tensor, "rows vocabulary"]:
        if not self.rows:
            return torch.zeros(0, VOCABULARY)
        return torch.stack(
            [self.script.log_probabilities(sentence, prefix) for sentence, prefix in self.rows]
        )

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row."""
        require(len(tokens) == len(self.rows), f"extends {len(self.rows)} rows by {len(tokens)} tokens")
        for token, (sentence, prefix) in zip(tokens.tolist(), self.rows, strict=True):
            if token == END:
                fail("a row that has ended is extended: finished rows do not leave, and cost for nothing")
            if not self.script.log_probabilities(sentence, prefix)[token].isfinite():
                fail(f"a row is extended by token {token}, whose probability is zero: limits do not hold")
        self.computed += len(tokens)
        self.rows = [
            (sentence, (*prefix, token))
            for token, (sentence, prefix) in zip(tokens.tolist(), self.rows, strict=True)
        ]
        self._log_probabilities = self._next()

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only."""
        self.rows = [self.rows[row] for row in rows.tolist()]
        self._log_probabilities = self._log_probabilities.index_select(0, rows)


SCRIPTS = (
    Script((0,), (0,)),
    Script((3,), (1,)),
    Script((0,), (6,)),
    Script((0, 1), (6, 2), eager=2.0),
    Script((5, 1, 4, 2), (8, 0, 3, 8), eager=1.0),
    Script((0, 1, 2), (5, 5, 5), eager=50.0),
    Script((0,), (1,), exact=True),
    Script((3, 0, 1), (4, 6, 3), eager=3.0, exact=True),
)
"""Batches: limits of zero, outputs that end at once or at different times, and outputs under a constraint."""


def _search(subject: Subject, script: Script) -> list[list[Hypothesis]]:
    decoding: Decoding = subject.create()
    return decoding.search(ScriptedSession(script))


def _outputs(subject: Subject, script: Script) -> Iterator[tuple[int, Hypothesis]]:
    """Yields all hypotheses, each with the number of its sentence."""
    for sentence, hypotheses in enumerate(_search(subject, script)):
        for hypothesis in hypotheses:
            yield sentence, hypothesis


@check(SCRIPTS)
def every_sentence_has_hypotheses(subject: Subject, script: Script) -> None:
    """The result has a list of hypotheses for each sentence of the batch, in order, none empty."""
    found = _search(subject, script)
    number = len(script.sentence_ids)
    require(len(found) == number, f"{number} sentences give {len(found)} results")
    for sentence, hypotheses in enumerate(found):
        require(len(hypotheses) > 0, f"sentence {sentence} has no hypothesis")


@check(SCRIPTS)
def limits_hold(subject: Subject, script: Script) -> None:
    """No output is longer than its limit, and none holds a special token."""
    for sentence, output in _outputs(subject, script):
        length, limit = len(output.tokens), script.limits[sentence]
        if length > limit:
            fail(f"an output of sentence {sentence} has {length} tokens, its limit is {limit}")
        if special := {PADDING, BEGIN, END} & set(output.tokens):
            fail(f"an output of sentence {sentence} holds the special token {min(special)}")


@check(SCRIPTS)
def finished_rows_leave(subject: Subject, script: Script) -> None:
    """Rows that have ended are dropped from the session, and nothing is computed for them."""
    _search(subject, script)  # the session itself refuses to extend a row that has ended


@check(SCRIPTS)
def outputs_are_possible(subject: Subject, script: Script) -> None:
    """Every hypothesis could be generated: no token of it, and no END, where its probability is zero."""
    for sentence, output in _outputs(subject, script):
        what = f"{output.tokens} is an output of sentence {sentence}, but its probability is zero"
        require(script.score(sentence, output.tokens) > -torch.inf, f"{what}: constraints do not hold")


@check(SCRIPTS)
def scores_are_log_probabilities(subject: Subject, script: Script) -> None:
    """A hypothesis' score is the sum of the logarithms of its tokens' probabilities, END included."""
    for sentence, output in _outputs(subject, script):
        expected = script.score(sentence, output.tokens)
        number = isinstance(output.score, int | float)
        require(
            number, f"the score of an output of sentence {sentence} is {output.score!r}, expected a float"
        )
        what = f"an output of sentence {sentence} has score {output.score:.4g}"
        close = abs(output.score - expected) < 1e-3
        require(close, f"{what}, its tokens' probabilities give {expected:.4g}")


@check(SCRIPTS[2:])
def searching_is_repeatable(subject: Subject, script: Script) -> None:
    """The same batch gives the same outputs each time, from the same object and from a new one."""
    decoding: Decoding = subject.create()
    found = [_tokens(decoding.search(ScriptedSession(script))) for _ in range(2)]
    found.append(_tokens(_search(subject, script)))
    if not found[0] == found[1] == found[2]:
        fail("the same batch gives other outputs each time: it depends on the past")


@check(SCRIPTS[3:])
def sentences_are_independent(subject: Subject, script: Script) -> None:
    """A sentence of a batch gets what it gets alone."""
    together = _tokens(_search(subject, script))
    for sentence, key in enumerate(script.sentence_ids):
        single = replace(script, sentence_ids=(key,), limits=(script.limits[sentence],))
        alone = _tokens(_search(subject, single))
        if together[sentence] != alone[0]:
            fail(f"sentence {sentence} gets {together[sentence][0]} in the batch and {alone[0][0]} alone")


@check(SCRIPTS[3:])
def the_order_of_sentences_does_not_matter(subject: Subject, script: Script) -> None:
    """Another order of the sentences gives the same outputs in that order."""
    turned = replace(script, sentence_ids=script.sentence_ids[::-1], limits=script.limits[::-1])
    if _tokens(_search(subject, turned))[::-1] != _tokens(_search(subject, script)):
        fail("outputs depend on the order of sentences in the batch")


def _tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]
