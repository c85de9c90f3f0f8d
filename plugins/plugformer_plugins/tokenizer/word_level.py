"""Tokenizers whose vocabulary is a list of whole pieces, the most frequent first."""

from abc import abstractmethod
from typing import Annotated

from pydantic import Field
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer

MinFrequency = Annotated[
    int, Field(ge=1, description="How often a piece must occur in training to have a token of its own.")
]
MaxSize = Annotated[
    int | None,
    Field(
        gt=len(SPECIAL_TOKENS),
        description="Number of tokens at most, the special ones included; the rarest pieces are left out.",
    ),
]


class WordLevel(FastTokenizer):
    """Cuts text into pieces, and knows those that occur often enough; the others are unknown.

    Args:
        min_frequency: How often a piece must occur in training to have a token of its own.
        max_size: Number of tokens at most, the special ones included; the rarest pieces are left out.
    """

    def __init__(self, *, min_frequency: MinFrequency = 1, max_size: MaxSize = None) -> None:
        self._min_frequency = min_frequency
        self._max_size = max_size
        super().__init__()

    @abstractmethod
    def cut(self, tokenizer: Tokenizer) -> None:
        """Gives an empty pipeline what cuts text into pieces and, unless they are words, joins them again."""

    def pipeline(self) -> Tokenizer:
        """Returns a word-level model over the pieces."""
        tokenizer = Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        self.cut(tokenizer)
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that counts; pieces of equal frequency are sorted as text."""
        return trainers.WordLevelTrainer(
            vocab_size=self._max_size or 2**48,  # without a limit
            min_frequency=self._min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )


class Characters(WordLevel):
    """One token for each character, the most frequent first; lossless on known characters.

    Unicode code points, spaces and line breaks included.
    See https://huggingface.co/docs/tokenizers/api/models.

    Lossless for text whose characters all have a token.
    """

    def cut(self, tokenizer: Tokenizer) -> None:
        """Cuts between all characters."""
        # (?m) lets the dot match line breaks too, in the syntax of Oniguruma.
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
        tokenizer.decoder = decoders.Fuse()


class Whitespace(WordLevel):
    """Words between white space, punctuation left on them: for text that is tokenized already.

    Decoding puts one space between words.
    See https://huggingface.co/docs/tokenizers/api/pre-tokenizers.
    """

    def cut(self, tokenizer: Tokenizer) -> None:
        """Cuts at white space of any kind."""
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


class Words(WordLevel):
    """English words in lower case with punctuation apart; min_frequency and max_size limit them.

    Basic English cleaning and splitting, as classifiers of news and reviews use it.
    See https://pytorch.org/text/stable/data_utils.html#get-tokenizer.

    Text is lower-cased; double quotes vanish; colons, semicolons and HTML line breaks become spaces; full
    stops, commas, exclamation and question marks, brackets and apostrophes become words of their own.
    Decoding puts one space between words.

    A word that occurs once in training is unknown by default. Little can be learned about it, and unless some
    words are unknown in training, the vector of unknown words is never trained.

    Args:
        min_frequency: How often a word must occur in training to have a token of its own.
        max_size: Number of tokens at most, the special ones included; the rarest words are left out.
    """

    def __init__(self, *, min_frequency: MinFrequency = 2, max_size: MaxSize = None) -> None:
        super().__init__(min_frequency=min_frequency, max_size=max_size)

    def cut(self, tokenizer: Tokenizer) -> None:
        """Cleans, then cuts at white space and around punctuation."""
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.Lowercase(),
                normalizers.Replace('"', ""),
                normalizers.Replace(Regex(r"<br\s*/?>|[;:]"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"[.,!?()']"), "isolated")]
        )
