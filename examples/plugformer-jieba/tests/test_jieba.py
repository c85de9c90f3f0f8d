"""Chinese words: cut, put together again, kept; quietly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plugformer_jieba.cutting import words
from plugformer_jieba.tokenizer import JiebaWords

from plugformer import create
from plugformer.errors import ConfigurationError
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_testing import parametrize_with_checks

TEXTS = ["我来到北京清华大学。", "他来到了网易杭研大厦", "我爱北京 Transformer 模型！"]
CHARACTERS = st.characters(exclude_categories=["Cs"])  # readers refuse half a surrogate pair
TEXT = st.text(st.one_of(st.sampled_from("我来到北京清华大学，。 \nab1-<>"), CHARACTERS), max_size=30)


@parametrize_with_checks("tokenizer/jieba")
def test_contract(check):
    check()


@pytest.fixture
def tokenizer() -> JiebaWords:
    made = JiebaWords()
    made.train(TEXTS)
    return made


def test_words_are_those_of_jieba() -> None:
    """The first example of jieba's own documentation."""
    assert words("我来到北京清华大学") == ["我", "来到", "北京", "清华大学"]


@given(TEXT)
@settings(deadline=None)
def test_words_put_together_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text


@given(TEXT)
@settings(deadline=None, max_examples=50)
def test_text_without_spaces_comes_back(text: str) -> None:
    tokenizer = JiebaWords()
    tokenizer.train(["我", text])
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_chinese_text_is_words_and_comes_back(tokenizer: JiebaWords) -> None:
    rows = tokenizer.encode(TEXTS)
    assert tokenizer.tokens(rows[0]) == ["我", "来到", "北京", "清华大学", "。"]
    assert tokenizer.decode(rows) == TEXTS


def test_an_unknown_word_is_shown(tokenizer: JiebaWords) -> None:
    assert tokenizer.encode(["上海"]) == [[UNKNOWN]]
    assert tokenizer.decode(tokenizer.encode(["我爱上海"])) == ["我爱<unk>"]


def test_the_most_frequent_words_come_first(tokenizer: JiebaWords) -> None:
    assert tokenizer.tokens([4, 5, 6]) == [" ", "北京", "我"]
    assert tokenizer.tokens(range(4)) == list(SPECIAL_TOKENS)


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"min_frequency": 2}, [" ", "北京", "我", "来到"]), ({"max_size": 6}, [" ", "北京"])],
)
def test_rare_words_are_left_out(options: dict[str, int], kept: list[str]) -> None:
    tokenizer: JiebaWords = create("tokenizer", "jieba", **options)
    tokenizer.train(TEXTS)
    assert tokenizer.tokens(range(4, tokenizer.size)) == kept


@pytest.mark.parametrize("options", [{"min_frequency": 0}, {"max_size": 4}, {"size": 9}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        create("tokenizer", "jieba", **options)


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_text_that_spells_a_special_token_is_text(tokenizer: JiebaWords, token: str) -> None:
    tokenizer.train([*TEXTS, token])
    (row,) = tokenizer.encode([f"我{token}"])
    assert min(row) >= len(SPECIAL_TOKENS)
    assert tokenizer.decode([row]) == [f"我{token}"]


def test_saved_and_loaded_is_the_same(tokenizer: JiebaWords, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = JiebaWords()
    loaded.load(tmp_path / "tokenizer.json")
    texts = [*TEXTS, "我在上海", *SPECIAL_TOKENS]
    assert loaded.encode(texts) == tokenizer.encode(texts)
    assert loaded.size == tokenizer.size


def test_what_a_program_adds_to_jieba_changes_nothing() -> None:
    import jieba

    jieba.setLogLevel("WARNING")
    jieba.add_word("来到北京")
    assert words("我来到北京清华大学") == ["我", "来到", "北京", "清华大学"]


NEWLY_COMPILED = """
import sys
sys.dont_write_bytecode = True
sys.pycache_prefix = sys.argv[1]  # nothing is compiled there, so that the compiler's warnings come, too
from plugformer_jieba.cutting import words
words("我来到北京")
"""
DEPRECATED = (
    "import warnings\nwarnings.warn('pkg_resources is deprecated', DeprecationWarning, stacklevel=2)\n"
)


def test_it_is_quiet_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "pkg_resources.py").write_text(f"{DEPRECATED}raise ImportError('gone')\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NEWLY_COMPILED, str(tmp_path / "compiled")],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(temporary.iterdir()) == []
