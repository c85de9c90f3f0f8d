"""Tokenizers that give every text back as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugformer.interfaces import UNKNOWN
from plugformer_plugins.tokenizer.subwords import BPE
from plugformer_plugins.tokenizer.word_level import Characters

HARD = [
    " both ends ",
    "\nline\r\nbreaks\n\n",
    "\ttabs\t",
    "👩‍👩‍👧 family",
    "晚风摇树树还挺",
    "e\u0301 and é",
    "\u200fright\u200e left",
    "",
    " ",
    "a\u2028b\x0bc\x00d",
    "<unk> <padding > ##inside ▁Ġ",
]

bpe = BPE(size=400)
bpe.train(["some english text to learn merges from", "some more text"])
characters = Characters()
characters.train([text for text in HARD if text])


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize("tokenizer", [bpe, characters], ids=["bpe", "characters"])
def test_hard_texts_come_back(tokenizer: BPE | Characters, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_a_character_is_a_token() -> None:
    assert [len(row) for row in characters.encode(HARD)] == [len(text) for text in HARD]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=200, deadline=None)
def test_bpe_gives_any_text_back(text: str) -> None:
    numbers = bpe.encode([text])
    assert UNKNOWN not in numbers[0]
    assert bpe.decode(numbers) == [text]
