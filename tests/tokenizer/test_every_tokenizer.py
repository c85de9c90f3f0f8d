"""What holds for every built-in tokenizer."""

from pathlib import Path

import pytest

from plugformer.errors import RunError
from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer
from plugformer_plugins.tokenizer.pretrained import Pretrained
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


@pytest.mark.parametrize("text", [*SPECIAL_TOKENS, "<padding>", "<unk>", "a <end > b", "<begin ><end >"])
def test_text_that_spells_a_special_token_does_not_become_it(tokenizer: Tokenizer, text: str) -> None:
    numbers = tokenizer.encode([text])[0]
    assert numbers
    assert not {PADDING, BEGIN, END} & set(numbers)


@pytest.mark.parametrize("component", [*LEARNED, lambda: Pretrained(path=Path("unused"))])
def test_a_damaged_file_is_a_run_error(component: type[Tokenizer], tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    made = component()
    for damage in (None, b"", b"{", b"\xff\xfe", b"[]", b'{"version": "1.0", "model": {}}'):
        if damage is not None:
            file.write_bytes(damage)
        with pytest.raises(RunError, match=r"tokenizer\.json"):
            made.load(file)


def test_what_is_unknown_can_be_named(tokenizer: Tokenizer) -> None:
    for text in QUERIES:
        parts = tokenizer.unknown(text)
        assert bool(parts) is (UNKNOWN in tokenizer.encode([text])[0])
        assert all(part and part in text for part in parts)
