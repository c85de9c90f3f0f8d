"""What is particular to single tokenizers."""

import json
from pathlib import Path

import pytest

from plugformer.errors import ConfigurationError
from plugformer.interfaces import UNKNOWN
from plugformer_plugins.tokenizer.subwords import BPE, Unigram, WordPiece
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace, Words


def test_characters_are_numbered_by_frequency_then_text() -> None:
    tokenizer = Characters()
    tokenizer.train(["bbbaac", "dc"])
    assert tokenizer.tokens(range(4, tokenizer.size)) == ["b", "a", "c", "d"]


def test_min_frequency_and_max_size_make_the_rest_unknown() -> None:
    tokenizer = Whitespace(min_frequency=2, max_size=6)
    tokenizer.train(["a a a b b c c d"])
    assert tokenizer.tokens(range(4, tokenizer.size)) == ["a", "b"]
    assert tokenizer.encode(["a c d"])[0][1:] == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fears for T N pension.", "fears for t n pension ."),
        ('He said: "No, (never)!"', "he said no , ( never ) !"),
        ("It's here;really?<br />Yes", "it ' s here really ? yes"),
        ("  many   spaces ", "many spaces"),
    ],
)
def test_words_are_cleaned(text: str, words: str) -> None:
    tokenizer = Words(min_frequency=1)
    tokenizer.train([text])
    assert tokenizer.decode(tokenizer.encode([text])) == [words]


def test_words_that_occur_once_are_unknown() -> None:
    tokenizer = Words()
    tokenizer.train(["stocks rise", "stocks fall"])
    assert tokenizer.encode(["stocks rise"]) == [[tokenizer.encode(["stocks"])[0][0], UNKNOWN]]


def test_bpe_normalizes_and_lowers_if_asked() -> None:
    tokenizer = BPE(normalization="nfkc", lowercase=True)
    tokenizer.train(["some text"])
    assert tokenizer.decode(tokenizer.encode(["ＦＵＬＬ ﬁ É", "e\u0301"])) == ["full fi é", "é"]


def test_bpe_merges_the_most_frequent_pair_first() -> None:
    """The example of Sennrich et al. (2016), section 3.2: their first three merges build `est`."""
    tokenizer = BPE(size=256 + 4 + 2)
    tokenizer.train(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)
    assert set(tokenizer.tokens([260, 261])) == {"es", "est"}


def test_bpe_shows_bytes_as_text() -> None:
    tokenizer = BPE(size=300)
    tokenizer.train(["你好 " * 9])
    assert "".join(tokenizer.tokens(tokenizer.encode(["你好"])[0])) == "你好"


def test_wordpiece_takes_the_longest_pieces_from_the_left() -> None:
    tokenizer = WordPiece(size=40)
    tokenizer.train(["unable unable able able able stable", "table"])
    pieces = tokenizer.tokens(tokenizer.encode(["unable"])[0])
    assert pieces[0].startswith("un")
    assert all(piece.startswith("##") for piece in pieces[1:])
    assert tokenizer.encode(["stable!"]) == [[UNKNOWN]]


def test_unigram_refuses_a_size_below_its_alphabet() -> None:
    with pytest.raises(ConfigurationError, match="size: 10 is too small"):
        Unigram(size=10).train(["abcdefghijklmnopqrstuvwxyz"])


def test_unigram_numbers_pieces_by_probability(tmp_path: Path) -> None:
    tokenizer = Unigram(size=60)
    tokenizer.train(["low lower lowest new newer newest wide wider widest slow slower slowest"] * 3)
    tokenizer.save(tmp_path / "tokenizer.json")
    pieces = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"][4:]
    assert [score for _, score in pieces] == sorted((score for _, score in pieces), reverse=True)
    assert any(len(piece) > 2 for piece, _ in pieces)
    assert len(tokenizer.encode(["lower"])[0]) < len("lower")
