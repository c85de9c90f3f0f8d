"""The contract of decoding components, see plugformer.interfaces.decoding."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import torch
from torch import Tensor

from plugformer.interfaces import BEGIN, END, PADDING, Decoding, Hypothesis, Session
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

VOCABULARY = 9

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Script:
    """Made-up probabilities of next tokens, for a batch of sentences with a number and a longest output each.

    Outputs end the sooner the more eager they are. If exact, they have their longest length, and even and odd
    tokens take turns: a constraint.
    """

    sentence_ids: tuple[int, ...]
    limits: tuple[int, ...]
    eager: float = 0.0
    exact: bool = False

    def log_probabilities(self, sentence: int, prefix: Prefix) -> Tensor:
        """Returns those of the next token, which depend on the sentence's number and the prefix."""
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
        places = [tuple(tokens[:place]) for place in range(len(tokens) + 1)]
        pairs = zip(places, [*tokens, END], strict=True)
        return sum(float(self.log_probabilities(sentence, prefix)[token]) for prefix, token in pairs)


@dataclass
class ScriptedSession(Session):
    """A session with a script in place of a model; it counts the tokens that are computed."""

    script: Script
    every: int = 1
    computed: int = 0
    rows: list[tuple[int, Prefix]] = field(init=False)
    length: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.sentence_ids = list(self.script.sentence_ids)
        self._set_rows([(sentence, ()) for sentence in range(len(self.sentence_ids))])

    def _set_rows(self, rows: list[tuple[int, Prefix]]) -> None:
        self.rows = rows
        self.sentences = torch.tensor([sentence for sentence, _ in rows], dtype=torch.long)
        self.finished = torch.tensor([END in prefix for _, prefix in rows], dtype=torch.bool)
        outputs = [(row, tuple(takewhile(END.__ne__, prefix))) for row, prefix in rows]
        scores = [self.script.log_probabilities(*output) for output in outputs]
        self.scores = torch.stack(scores) if rows else torch.zeros(0, VOCABULARY)

    @property
    def looks(self) -> bool:
        """Whether it is time to read tokens."""
        return (self.length + 1) % self.every == 0 or self.length >= max(self.script.limits)

    @property
    def log_probabilities(self) -> Tensor:
        """Those of the script."""
        return self.scores

    def extend(self, tokens: Tensor) -> None:
        """Appends one token to every row."""
        require.equal(len(tokens), len(self.rows), "the number of tokens by which rows are extended")
        for row, token in enumerate(tokens.tolist()):
            if self.finished[row]:
                continue
            possible = self.scores[row, token].isfinite()
            require.that(possible, f"a row is extended by token {token}, whose probability is zero")
        self.computed += len(tokens)
        self.length += 1
        pairs = zip(self.rows, tokens.tolist(), strict=True)
        self._set_rows([(sentence, (*prefix, token)) for (sentence, prefix), token in pairs])

    def select(self, rows: Tensor, sentences: Sequence[int] | None = None) -> None:
        """Keeps only these rows."""
        self._set_rows([self.rows[row] for row in rows.tolist()])
        if sentences is not None:
            found = [*dict.fromkeys(self.sentences.tolist())]
            require.equal(found, [*sentences], "the sentences of the rows that are selected")


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


def _search(subject: Subject, script: Script) -> list[list[Hypothesis]]:
    decoding: Decoding = subject.create()
    return decoding.search(ScriptedSession(script))


def _tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


@contract_check(cases=SCRIPTS)
def outputs_are_possible(subject: Subject, script: Script) -> None:
    """Each sentence has hypotheses, in the order of the batch, that could be generated.

    None is longer than its limit or has a special token, or a token or END where its probability is zero.
    """
    found = _search(subject, script)
    require.equal(len(found), len(script.sentence_ids), "the number of sentences with results")
    for sentence, hypotheses in enumerate(found):
        require.that(hypotheses, f"sentence {sentence} has no hypothesis")
        for tokens in (hypothesis.tokens for hypothesis in hypotheses):
            what, limit = f"an output of sentence {sentence}", script.limits[sentence]
            require.that(len(tokens) <= limit, f"{what} has {len(tokens)} tokens, its limit is {limit}")
            special = sorted({PADDING, BEGIN, END} & set(tokens))
            require.that(not special, f"{what} has the special tokens {special}")
            possible = script.score(sentence, tokens) > -torch.inf
            require.that(possible, f"{what} is {tokens}, whose probability is zero")


@contract_check(cases=SCRIPTS)
def scores_are_log_probabilities(subject: Subject, script: Script) -> None:
    """A hypothesis' score is the sum of the logarithms of its tokens' probabilities, END included."""
    for sentence, hypotheses in enumerate(_search(subject, script)):
        for output in hypotheses:
            expected = script.score(sentence, output.tokens)
            close = isinstance(output.score, int | float) and abs(output.score - expected) < 1e-3
            require.that(close, f"{output.tokens} scores {output.score!r}, expected {expected:.4g}")


@contract_check(cases=SCRIPTS[2:])
def searching_is_repeatable(subject: Subject, script: Script) -> None:
    """The same batch gives the same outputs each time, from the same object and from a new one."""
    decoding: Decoding = subject.create()
    found = [_tokens(decoding.search(ScriptedSession(script))) for _ in range(2)]
    same = found[0] == found[1] == _tokens(_search(subject, script))
    require.that(same, "the same batch gives other outputs each time")


@contract_check(cases=SCRIPTS[2:])
def looking_seldom_changes_nothing(subject: Subject, script: Script) -> None:
    """A search that reads tokens at some steps alone, as from a device, gives the same outputs."""
    decoding: Decoding = subject.create()
    found = _tokens(decoding.search(ScriptedSession(script, every=3)))
    require.equal(
        found, _tokens(_search(subject, script)), "what a search gives that looks at every third step"
    )


@contract_check(cases=SCRIPTS[3:])
def sentences_are_independent(subject: Subject, script: Script) -> None:
    """A sentence gets the same alone and in a batch, in any order of the batch."""
    together = _tokens(_search(subject, script))
    turned = replace(script, sentence_ids=script.sentence_ids[::-1], limits=script.limits[::-1])
    same = _tokens(_search(subject, turned))[::-1] == together
    require.that(same, "outputs depend on the order of sentences in the batch")
    for sentence, key in enumerate(script.sentence_ids):
        single = replace(script, sentence_ids=(key,), limits=(script.limits[sentence],))
        (alone,) = _tokens(_search(subject, single))
        require.equal(together[sentence], alone, f"what sentence {sentence} gets in the batch, not alone,")
