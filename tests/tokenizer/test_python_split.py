"""Tokenizers that cut words in Python before the library sees them, as third parties write them."""

from pathlib import Path

import tokenizers
from tokenizers import models, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer


class Halves(FastTokenizer):
    """Cuts a text after every second character, whatever they are."""

    def pipeline(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))

    def trainer(self) -> trainers.Trainer:
        return trainers.WordLevelTrainer(special_tokens=list(SPECIAL_TOKENS), show_progress=False)

    def split(self, text: str) -> list[str]:
        return [text] if text in SPECIAL_TOKENS else [text[at : at + 2] for at in range(0, len(text), 2)]

    def join(self, tokens: list[str]) -> str:
        return "".join(tokens)


def test_words_are_those_of_the_split(tmp_path: Path) -> None:
    tokenizer = Halves()
    tokenizer.train(["ab d", "abc "])
    assert tokenizer.tokens(range(4, tokenizer.size)) == ["ab", " d", "c "]
    assert tokenizer.decode(tokenizer.encode(["c ab d"])) == ["c ab d"]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Halves()
    loaded.load(tmp_path / "tokenizer.json")
    assert loaded.encode(["c ab dxy"]) == tokenizer.encode(["c ab dxy"])
