"""What holds for every built-in tokenizer, beyond the contract of all tokenizers."""

import pytest

from plugformer.interfaces import UNKNOWN, Tokenizer
from plugformer_plugins.tokenizer.spacy_words import SpacyWords
from plugformer_plugins.tokenizer.subwords import BPE, Unigram, WordPiece
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace, Words

LEARNED = [BPE, Characters, SpacyWords, Unigram, Whitespace, WordPiece, Words]

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "low lower lowest, new newer newest!",
    "中文 也 可以 ; ein schöner Tag (wirklich)",
    "the fox and the dog; the newest dog <padding > [begin] padding begin",
] * 3

QUERIES = ["the lazy fox", "", "lowest new day", "<begin >", "  spaces  ", "中 quick", "é👩‍👩‍👧"]


@pytest.fixture(params=LEARNED)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    made: Tokenizer = request.param()
    made.train(iter(TEXTS))
    return made


def test_what_is_unknown_can_be_named(tokenizer: Tokenizer) -> None:
    for text in QUERIES:
        parts = tokenizer.unknown(text)
        assert bool(parts) is (UNKNOWN in tokenizer.encode([text])[0])
        assert all(part and part in text for part in parts)
