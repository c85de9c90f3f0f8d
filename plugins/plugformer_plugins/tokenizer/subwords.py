"""Subword tokenizers: byte-level BPE, WordPiece and unigram."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from plugformer.errors import ConfigurationError
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer

Size = Annotated[int, Field(gt=len(SPECIAL_TOKENS), le=2**20)]
Frequency = Annotated[int, Field(ge=1)]
Normalization = Annotated[
    Literal["none", "nfc", "nfkc"], Field(description="Unicode normal form of the text.")
]
Lowercase = Annotated[bool, Field(description="Whether text is lower-cased.")]

_FORMS: dict[str, list[normalizers.Normalizer]] = {
    "none": [],
    "nfc": [normalizers.NFC()],
    "nfkc": [normalizers.NFKC()],
}

_PENALTY = 1e-4
"""What a unigram trainer adds to the score of each further character that it has learned nothing about."""

_DIGITS = 4
"""Of the scores of a unigram model: far above the rounding errors by which they differ between processes."""

_INSIDE = "##"
"""Marks a WordPiece that continues a word."""

_LONGEST_WORD = 1000
"""Characters; to WordPiece, longer words are unknown as a whole."""


class SubwordTokenizer(FastTokenizer):
    """Pieces of words, of text that is normalized before.

    Args:
        size: Number of tokens, the special ones included; fewer where the text has no more.
        normalization: A form of https://unicode.org/reports/tr15/.
        lowercase: Whether text is lower-cased after that.
    """

    def __init__(
        self, *, size: Size = 8000, normalization: Normalization = "none", lowercase: Lowercase = False
    ) -> None:
        self._size = size
        self._cleaning = normalizers.Sequence(_FORMS[normalization] + [normalizers.Lowercase()] * lowercase)
        super().__init__()


class BPE(SubwordTokenizer):
    """Byte-level byte-pair encoding; nothing is unknown, lossless unless normalized.

    Starts from the 256 bytes and merges the most frequent pair until the vocabulary is full.

    Sennrich et al. (2016), algorithm 1, https://arxiv.org/abs/1508.07909; on bytes as in Radford et al.
    (2019), section 2.2. Nothing is unknown; lossless without normalization and lower-casing.

    Args:
        size: Number of tokens, the special ones and the bytes included; fewer where the text has no more.
        min_frequency: How often a pair must occur to be merged.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=256 + len(SPECIAL_TOKENS), le=2**20)] = 8000,
        min_frequency: Frequency = 2,
        normalization: Normalization = "none",
        lowercase: Lowercase = False,
    ) -> None:
        self._min_frequency = min_frequency
        super().__init__(size=size, normalization=normalization, lowercase=lowercase)

    def pipeline(self) -> Tokenizer:
        """Returns a BPE model over bytes, words and their leading space kept together."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = self._cleaning
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that breaks ties by token number."""
        return trainers.BpeTrainer(
            vocab_size=self._size,
            min_frequency=self._min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )


class WordPiece(SubwordTokenizer):
    """Words between white space, cut greedily into their longest known pieces.

    Pieces inside words between white space; a word is cut greedily into the longest pieces from the left.

    Wu et al. (2016), section 4.1, https://arxiv.org/abs/1609.08144; as there, punctuation stays on its word,
    so that decoding restores all but the width of spaces. A word with a character that never occurred there
    in training is unknown as a whole.

    Args:
        size: Number of tokens, the special ones included; more if the characters alone are more.
        min_frequency: How often a pair of pieces must occur to be joined.
    """

    def __init__(
        self,
        *,
        size: Size = 8000,
        min_frequency: Frequency = 2,
        normalization: Normalization = "none",
        lowercase: Lowercase = False,
    ) -> None:
        self._min_frequency = min_frequency
        self._alphabet: list[str] = []
        super().__init__(size=size, normalization=normalization, lowercase=lowercase)

    def pipeline(self) -> Tokenizer:
        """Returns a WordPiece model over words between white space."""
        tokenizer = Tokenizer(_word_piece({}))
        tokenizer.normalizer = self._cleaning
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.decoder = decoders.WordPiece(prefix=_INSIDE, cleanup=False)
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that finds the alphabet in order.

        Left to itself it numbers characters as a hash table yields them, another in each process, and the
        numbers decide ties between merges; what is given as special comes first and in the order given.
        """
        return trainers.WordPieceTrainer(
            vocab_size=self._size,
            min_frequency=self._min_frequency,
            special_tokens=[*SPECIAL_TOKENS, *self._alphabet],
            continuing_subword_prefix=_INSIDE,
            show_progress=False,
        )

    def learned(self, learner: Tokenizer) -> models.Model:
        """Returns the model of the trained vocabulary."""
        return _word_piece(learner.get_vocab())

    def train(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary, characters first: the texts are read twice."""
        texts = list(texts) if isinstance(texts, Iterator) else texts
        # Cut as the trainer does: Python takes four control characters more for white space.
        cut = self.pipeline().pre_tokenizer.pre_tokenize_str
        words = (word for text in texts for word, _ in cut(self._cleaning.normalize_str(text)))
        pieces = {piece for word in words for piece in (word[0], *(_INSIDE + inner for inner in word[1:]))}
        self._alphabet = sorted(pieces)
        super().train(texts)


class Unigram(SubwordTokenizer):
    """Pieces with probabilities; a text is cut into the most probable sequence of them.

    Kudo (2018), section 3.2, https://arxiv.org/abs/1804.10959: starts from many pieces and prunes those whose
    loss costs the training text's likelihood least. A space belongs to the word after it.

    Args:
        size: Number of tokens, the special ones included; fewer where the text has no more.
    """

    def pipeline(self) -> Tokenizer:
        """Returns a unigram model over words with their leading space."""
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = self._cleaning
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer by expectation maximization."""
        return trainers.UnigramTrainer(
            vocab_size=self._size,
            special_tokens=list(SPECIAL_TOKENS),
            unk_token=SPECIAL_TOKENS[UNKNOWN],
            show_progress=False,
        )

    def learned(self, learner: Tokenizer) -> models.Model:
        """Returns the model, the most probable pieces first.

        Sums of different order give scores that differ in their last bits from process to process, and
        characters that are no piece of the result get steps of a penalty in the order of a hash table: scores
        are rounded, and those characters all get the lowest.
        """
        pieces = json.loads(learner.to_str())["model"]["vocab"][len(SPECIAL_TOKENS) :]
        lowest = min(score for _, score in pieces)
        rounded = []
        for piece, score in pieces:
            steps = (score - lowest) / _PENALTY
            penalized = len(piece) == 1 and abs(steps - round(steps)) < 1e-6
            rounded.append((piece, round(lowest if penalized else score, _DIGITS)))
        special = [(token, 0.0) for token in SPECIAL_TOKENS]
        ordered = sorted(rounded, key=lambda piece: (-piece[1], piece[0]))
        return models.Unigram(special + ordered, unk_id=UNKNOWN, byte_fallback=False)

    def train(self, texts: Iterable[str]) -> None:
        """Learns the pieces.

        Raises:
            ConfigurationError: The vocabulary has no room for the characters of the text.
        """
        try:
            super().train(texts)
        except Exception as error:  # the library raises plain Exception
            if "not large enough" not in str(error):
                raise
            raise ConfigurationError(
                f"tokenizer 'unigram': size: {self._size} is too small for the text's characters; raise it"
            ) from error


def _word_piece(vocabulary: dict[str, int]) -> models.WordPiece:
    return models.WordPiece(
        vocabulary,
        unk_token=SPECIAL_TOKENS[UNKNOWN],
        max_input_chars_per_word=_LONGEST_WORD,
        continuing_subword_prefix=_INSIDE,
    )
