"""Constraints hold whatever the model says: patterns and lengths, for every tokenizer and every search."""

import re

import pytest
import torch
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, AllowedOutputs, Session
from plugformer_plugins.constraint.automaton import AutomatonTokens
from plugformer_plugins.constraint.expressions import compile_expression
from plugformer_plugins.constraint.pattern import Pattern, token_automaton
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy, Sampling
from plugformer_plugins.tokenizer.pretrained import Pretrained
from plugformer_plugins.tokenizer.subwords import BPE, Unigram, WordPiece
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace, Words

TEXTS = [f"{1900 + n}-{1 + n % 12:02}-{1 + n % 28:02} on day {n} , schön 中文 été" for n in range(150)]
TOKENIZERS = {
    "bpe": lambda: BPE(size=320),
    "characters": Characters,
    "unigram": lambda: Unigram(size=120),
    "whitespace": Whitespace,
    "wordpiece": lambda: WordPiece(size=160),
    "words": lambda: Words(min_frequency=1),
}
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
SEARCHES = [Greedy(), Beam(size=3), Sampling(temperature=3.0, top_k=4)]


@pytest.fixture(scope="module", params=sorted(TOKENIZERS))
def tokenizer(request):
    return trained(request.param)


def trained(name):
    made = TOKENIZERS[name]()
    made.train(TEXTS)
    return made


class Noise(Session):
    """A model that says something else at every step, for a constraint to keep in bounds."""

    def __init__(self, allowed, sentences, vocabulary, seed):
        self._allowed, self.vocabulary = allowed, vocabulary
        self.rows = torch.arange(sentences)
        self.number = sentences
        self.generator = torch.Generator().manual_seed(seed)
        self.draw()

    def draw(self):
        noise = 4 * torch.randn(len(self.rows), self.vocabulary, generator=self.generator)
        self.unmasked = noise.log_softmax(-1)
        self.masked = self._allowed.mask(self.unmasked.clone())

    sentences = property(lambda self: self.rows)
    sentence_ids = property(lambda self: list(range(self.number)))

    log_probabilities = property(lambda self: self.masked)

    def extend(self, tokens):
        self._allowed.extend(tokens)
        self.draw()

    def select(self, rows, sentences=None):
        self.rows = self.rows[rows]
        self._allowed.select(rows)
        self.masked = self.masked[rows]


def started(constraint, lengths, model_max_length=40):
    """Returns the beginnings of outputs to sentences with so many tokens, END not counted."""
    room = torch.full((len(lengths),), model_max_length - 1)
    return constraint.start(torch.tensor(lengths), room)


def constraint(tokenizer, positions=40, *, pattern=None, max_length="source+50", length=None):
    allowed = AllowedOutputs(positions, max_length=max_length, length=length)
    if pattern is not None:
        shortest = length if isinstance(length, int) else 0
        allowed.begin = Pattern(expression=pattern).compile(tokenizer, shortest, allowed.longest)
    return allowed


def outputs(tokenizer, search, lengths=(3,) * 12, model_max_length=40, seed=0, every=1, **settings):
    """Returns the tokens of every output that a noisy model gives under some settings."""
    session = Noise(
        started(constraint(tokenizer, model_max_length, **settings), lengths, model_max_length),
        len(lengths),
        tokenizer.size,
        seed,
    )
    session.every = every
    return [[hypothesis.tokens for hypothesis in found] for found in search.search(session)]


PATTERNS = [
    (DATE, {}),
    (r"(day|on)( [0-9]+)*", {}),
    (r"(?:19|20)?[0-9]{2}( ,)?", {}),
    (r"day 1|day 12|day", {}),
    (r"[a-zé0-9]+( [a-zé0-9]+)*", {"max_length": 1}),
    (r"[a-zé0-9]+( [a-zé0-9]+)*", {"max_length": 5}),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize(("pattern", "settings"), PATTERNS)
def test_every_output_matches_the_pattern(tokenizer, search, pattern, settings):
    found = outputs(tokenizer, search, pattern=pattern, **settings)
    assert max(len(tokens) for hypotheses in found for tokens in hypotheses) <= settings.get("max_length", 53)
    texts = tokenizer.decode([tokens for hypotheses in found for tokens in hypotheses])
    assert texts
    assert [text for text in texts if not re.fullmatch(pattern, text)] == []


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_outputs_match_where_rows_that_have_ended_stay(search):
    characters = trained("characters")
    found = outputs(characters, search, pattern="[a-z]{1,9}", every=8)
    texts = [characters.decode(hypotheses) for hypotheses in found]
    assert all(re.fullmatch("[a-z]{1,9}", text) for each in texts for text in each)
    assert len({len(text) for each in texts for text in each}) > 1


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize(
    ("length", "expected"), [("source", [1, 7, 4]), (6, [6, 6, 6])], ids=["source", "number"]
)
def test_outputs_of_one_length_in_known_tokens(tokenizer, search, length, expected):
    found = outputs(tokenizer, search, lengths=(1, 7, 4), length=length)
    assert [{len(tokens) for tokens in hypotheses} for hypotheses in found] == [{n} for n in expected]
    used = {token for hypotheses in found for tokens in hypotheses for token in tokens}
    assert not used & {PADDING, UNKNOWN, BEGIN, END}


def test_exactly_what_can_still_be_completed_is_allowed():
    """Characters and (a|bc)*, at most three: compared with all strings, state by state."""
    abc = Characters()
    abc.train(["abc"])
    number = {character: abc.encode([character])[0][0] for character in "abc"}
    matching = {text for text in strings("abc", 3) if re.fullmatch("(a|bc)*", text)}
    for least in range(4):
        possible = {text for text in matching if least <= len(text)}
        for prefix in {text[:cut] for text in possible for cut in range(len(text) + 1)}:
            automaton = token_automaton(compile_expression("(a|bc)*"), abc, 3)
            progress = AutomatonTokens(automaton, torch.tensor([least]), torch.tensor([3]))
            for character in prefix:
                progress.extend(torch.tensor([number[character]]))
            allowed = progress.mask(torch.zeros(1, abc.size))[0].isfinite()
            following = {c for c in "abc" if any(text.startswith(prefix + c) for text in possible)}
            assert {c for c in "abc" if allowed[number[c]]} == following
            assert bool(allowed[END]) == (prefix in possible)


def strings(alphabet, longest):
    layer = [""]
    for _ in range(longest + 1):
        yield from layer
        layer = [text + character for text in layer for character in alphabet]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_length": "source+1"}, [{10}, {10, 12}]),  # the first source leaves room for three tokens
        ({"length": "source"}, [{10}, {12}]),
    ],
)
def test_the_pattern_wins_over_a_length_that_none_of_its_texts_has(settings, expected):
    pattern = DATE + "(-[0-9])?"
    found = outputs(trained("characters"), Greedy(), lengths=(2, 15), pattern=pattern, **settings)
    for [tokens], lengths in zip(found, expected, strict=True):
        assert len(tokens) in lengths


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("a|ab", ["a", "ab"], ["", "b", "aba"]),  # not the first match, the whole text
        ("a+?", ["a", "aaa"], [""]),
        ("a*", ["", "aa"], ["b"]),
        ("a[a-z]{30}", ["a" * 31], ["a" * 30, "a" * 32]),  # no exponential growth
        (".{2}", ["中é", "ab"], ["中", "a\n"]),
        ("\x02?[^x]", ["\x02y", "\x03"], ["x"]),
        (r"\p{Han}+", ["中文"], ["a"]),
        ("(?i)ß|k", ["K", "ß"], ["s"]),
    ],
)
def test_a_pattern_matches_whole_texts(expression, matching, others):
    pattern = compile_expression(expression)

    def matches(text):
        state = 0
        for byte in text.encode():
            state = pattern.moves[state, byte]
        return bool(pattern.accepting[state])

    assert [matches(text) for text in matching] == [True] * len(matching)
    assert [matches(text) for text in others] == [False] * len(others)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[0-9", r"'\[0-9' is not a regular expression: unterminated character set at position 0"),
        ("a)|(b", r"is not a regular expression: unbalanced parenthesis at position 1"),
        ("a(?=b)", "look-around, references to groups"),
        (r"(a)\1", "look-around, references to groups"),
        (r"\bday\b", "look-around, references to groups"),
        ("^a$", r"no text matches '\^a\$'; leave out \^ and \$"),
        ("[a&&b]", "no text matches"),
    ],
)
def test_what_is_no_pattern_is_refused(expression, message):
    with pytest.raises(ConfigurationError, match=message):
        compile_expression(expression)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"pattern": "[0-9]{2}/[0-9]_?"},
            r"the vocabulary cannot spell",
        ),
        ({"pattern": DATE, "max_length": 9}, "cannot spell a text of the pattern .* with at most 9 tokens"),
        ({"pattern": DATE + "-?", "length": 12}, r"have 10 to 11 tokens, none of them 12"),
        ({"pattern": ".{40}"}, "with at most 39 tokens"),
    ],
)
def test_a_constraint_that_no_output_can_meet_is_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        constraint(trained("characters"), **settings)


def test_a_pattern_with_too_many_states_is_refused():
    with pytest.raises(ConfigurationError, match=r"more than 4,096 states .* \[a-z\] instead of"):
        constraint(trained("bpe"), pattern=r"\w{20}")


def test_a_tokenizer_whose_pieces_depend_on_their_neighbors_is_refused(tmp_path):
    """A suffix decoder writes a space behind a word unless nothing follows."""
    pipeline = Pipeline(models.WordLevel({"on</w>": 0, "day</w>": 1, "d": 2}, unk_token="d"))  # noqa: S106
    pipeline.decoder = decoders.BPEDecoder()
    pipeline.save(str(tmp_path / "tokenizer.json"))
    pretrained = Pretrained(path=tmp_path / "tokenizer.json")
    pretrained.train([])
    with pytest.raises(ConfigurationError, match="no pattern can be kept with such a tokenizer"):
        constraint(pretrained, pattern="[a-z ]+")
