"""Words as spaCy's rules cut them."""

from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer, normalizers

from plugformer.errors import ConfigurationError, needing
from plugformer_plugins.tokenizer.word_level import MaxSize, MinFrequency, WordLevel

JOINER = "￭"
"""Begins a word that no space parts from the one before; in a text it becomes `■`, both as OpenNMT does."""


class SpacyWords(WordLevel):
    """Words and punctuation by spaCy's rules for a language, its abbreviations and contractions included.

    No model is downloaded: the rules are those of `spacy.blank(language)`,
    https://spacy.io/usage/linguistic-features#how-tokenizer-works. A word that follows another one without a
    space is a token of its own, `￭.` or `￭'s` as in https://github.com/OpenNMT/Tokenizer, so that decoding
    restores the spaces. White space of any kind becomes one space.

    Args:
        language: Whose rules, as spaCy names the language.
        lowercase: Whether words are put into lower case, after cutting.
        min_frequency: How often a word must occur in training to have a token of its own.
        max_size: Number of tokens at most, the special ones included; the rarest words are left out.

    Raises:
        ConfigurationError: spaCy is not installed, or has no rules for the language.
    """

    def __init__(
        self,
        *,
        language: str = "en",
        lowercase: bool = False,
        min_frequency: MinFrequency = 2,
        max_size: MaxSize = None,
    ) -> None:
        with needing("spacy", "tokenizer 'spacy'"):
            import spacy  # slow
        try:
            self._rules: Callable[[str], Iterable[Any]] = spacy.blank(language).tokenizer
        except ImportError as error:
            raise ConfigurationError(
                f"tokenizer 'spacy': language: spaCy has no rules for {language!r} here ({error}); expected "
                "a language that it names, such as de, en, fr or zh, or xx for any"
            ) from error
        self._lowercase = lowercase
        super().__init__(min_frequency=min_frequency, max_size=max_size)

    def cut(self, tokenizer: Tokenizer) -> None:
        """Leaves words whole: `split` has cut them."""
        if self._lowercase:
            tokenizer.normalizer = normalizers.Lowercase()

    def split(self, text: str) -> list[str]:
        """Cuts a text with spaCy, white space left out."""
        words, apart = [], True
        for token in self._rules(text.replace(JOINER, "■")):
            if not token.is_space:
                words.append(token.text if apart else JOINER + token.text)
            apart = token.is_space or bool(token.whitespace_)
        return words

    def unknown(self, text: str) -> list[str]:
        """Returns the words that become UNKNOWN, without joiners."""
        return [word.removeprefix(JOINER) for word in super().unknown(text)]

    def join(self, tokens: list[str]) -> str:
        """Puts words together, with spaces where there were some."""
        return " ".join(tokens).replace(f" {JOINER}", "").removeprefix(JOINER)
