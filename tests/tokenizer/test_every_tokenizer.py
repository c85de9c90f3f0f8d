"""What holds for every built-in tokenizer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.errors import DataError, RunError
from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer
from plugformer_plugins.tokenizer.bpe import BPE
from plugformer_plugins.tokenizer.pretrained import Pretrained
from plugformer_plugins.tokenizer.spacy_words import SpacyWords
from plugformer_plugins.tokenizer.unigram import Unigram
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace, Words
from plugformer_plugins.tokenizer.wordpiece import WordPiece

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


def test_special_tokens_come_first(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens(range(4)) == list(SPECIAL_TOKENS)


@pytest.mark.parametrize("text", [*SPECIAL_TOKENS, "<padding>", "<unk>", "a <end > b", "<begin ><end >"])
def test_text_that_spells_a_special_token_does_not_become_it(tokenizer: Tokenizer, text: str) -> None:
    numbers = tokenizer.encode([text])[0]
    assert numbers
    assert not {PADDING, BEGIN, END} & set(numbers)


def test_known_words_survive(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode(["the lazy fox jumps"])) == ["the lazy fox jumps"]


@pytest.mark.parametrize("component", LEARNED)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_is_an_error(component: type[Tokenizer], texts: list[str]) -> None:
    with pytest.raises(DataError, match="every training text is empty"):
        component().train(texts)


@pytest.mark.parametrize("component", [*LEARNED, lambda: Pretrained(path=Path("unused"))])
def test_a_damaged_file_is_a_run_error(component: type[Tokenizer], tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    made = component()
    for damage in (None, b"", b"{", b"\xff\xfe", b"[]", b'{"version": "1.0", "model": {}}'):
        if damage is not None:
            file.write_bytes(damage)
        with pytest.raises(RunError, match=r"tokenizer\.json"):
            made.load(file)


def test_a_foreign_vocabulary_is_a_run_error(tmp_path: Path) -> None:
    words = Whitespace()
    words.train(TEXTS)
    words.save(tmp_path / "tokenizer.json")
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8").replace("<padding >", "<pad>")
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"starts with .*<pad>"):
        Whitespace().load(tmp_path / "tokenizer.json")


TRAIN = """
import importlib, random, sys
from pathlib import Path
random.seed(5)
letters = "abcdefghij"
words = ["".join(random.choices(letters, k=random.randint(2, 8))) for _ in range(300)]
texts = [" ".join(random.choices(words, k=9)) for _ in range(200)]
texts += ["LOW LOWER LOWEST", "NEW NEWER NEWEST", "WIDE WIDER WIDEST"] * 3  # letters seldom stand alone
for target in sys.argv[2:]:
    module, _, name = target.partition(":")
    tokenizer = getattr(importlib.import_module(module), name)()
    tokenizer.train(texts)
    tokenizer.save(Path(sys.argv[1], name + ".json"))
"""


def test_trained_in_two_processes_is_the_same(tmp_path: Path) -> None:
    """Hash tables and threads differ between processes; vocabularies must not."""
    targets = [f"{component.__module__}:{component.__name__}" for component in LEARNED]
    settings = [
        {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "3", "TOKENIZERS_PARALLELISM": "true"},
    ]
    for number, variables in enumerate(settings):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-c", TRAIN, str(folder), *targets]
        subprocess.run(command, env={**os.environ, **variables}, check=True)
    for component in LEARNED:
        one, other = ((tmp_path / str(n) / f"{component.__name__}.json").read_bytes() for n in (0, 1))
        assert one == other, component


def test_what_is_unknown_can_be_named(tokenizer: Tokenizer) -> None:
    for text in QUERIES:
        parts = tokenizer.unknown(text)
        assert bool(parts) is (UNKNOWN in tokenizer.encode([text])[0])
        assert all(part and part in text for part in parts)
