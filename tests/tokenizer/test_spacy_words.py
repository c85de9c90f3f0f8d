"""Words by spaCy's rules: the cut is spaCy's, and spaces come back."""

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from plugformer.errors import ConfigurationError
from plugformer.interfaces import UNKNOWN
from plugformer_plugins.tokenizer.spacy_words import JOINER, SpacyWords

ENGLISH = "A man's T-shirt doesn't fit (he says), e.g. in the U.S."
GERMAN = "Ein T-Shirt, z.B. im 3. Stock, gehört's ihm?"
TEXT = st.text(st.one_of(st.sampled_from("ab'-.,()￭■ \n"), st.characters(exclude_categories=["Cs"])))

ENGLISH_WORDS = SpacyWords()


@pytest.mark.parametrize(("language", "text"), [("en", ENGLISH), ("de", GERMAN)])
def test_words_are_those_of_spacy_and_the_text_comes_back(language: str, text: str) -> None:
    tokenizer = SpacyWords(language=language, min_frequency=1)
    tokenizer.train([text])
    (row,) = tokenizer.encode([text])
    expected = [word.text for word in spacy.blank(language).tokenizer(text)]
    assert [token.removeprefix(JOINER) for token in tokenizer.tokens(row)] == expected
    assert tokenizer.decode([row]) == [text]


def test_rules_depend_on_the_language() -> None:
    """English parts contractions and hyphenated words, German does not."""
    assert SpacyWords(language="en").split("don't a-b") == ["do", "￭n't", "a", "￭-", "￭b"]
    assert SpacyWords(language="de").split("don't a-b") == ["don't", "a-b"]


@given(TEXT)
@settings(deadline=None, max_examples=200)
def test_all_but_white_space_comes_back(text: str) -> None:
    words = ENGLISH_WORDS.split(text)
    assert ENGLISH_WORDS.join(words) == " ".join(text.replace(JOINER, "■").split())


def test_words_may_be_in_lower_case() -> None:
    tokenizer = SpacyWords(lowercase=True, min_frequency=2)
    tokenizer.train(["The dog.", "the DOG, rare"])
    assert sorted(tokenizer.tokens(range(4, tokenizer.size))) == ["dog", "the"]
    assert tokenizer.encode(["THE cat"])[0][1:] == [UNKNOWN]


def test_a_language_without_rules_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no rules for 'qq' .*such as de, en"):
        SpacyWords(language="qq")
