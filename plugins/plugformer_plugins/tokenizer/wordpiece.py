"""WordPiece: words cut into their longest known pieces."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer
from plugformer_plugins.tokenizer.cleaning import Normalization, cleaning

_INSIDE = "##"
"""Marks a piece that continues a word."""

_LONGEST_WORD = 1000
"""Characters; longer words are unknown as a whole."""


class WordPiece(FastTokenizer):
    """Pieces inside words between white space; a word is cut greedily into the longest pieces from the left.

    Wu et al. (2016), section 4.1, https://arxiv.org/abs/1609.08144; as there, punctuation stays on its word,
    so that decoding restores all but the width of spaces. A word with a character that never stood there in
    training is unknown as a whole.

    Args:
        size: Number of tokens, the special ones included; more if the characters alone are more.
        min_frequency: How often a pair of pieces must occur to be joined.
        normalization: Unicode normal form of the text.
        lowercase: Whether text is lower-cased.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(gt=len(SPECIAL_TOKENS), le=2**20)] = 8000,
        min_frequency: Annotated[int, Field(ge=1)] = 2,
        normalization: Normalization = "none",
        lowercase: bool = False,
    ) -> None:
        self._size = size
        self._min_frequency = min_frequency
        self._cleaning = cleaning(normalization, lowercase=lowercase)
        self._alphabet: list[str] = []
        super().__init__()

    def pipeline(self) -> Tokenizer:
        """Returns a WordPiece model over words between white space."""
        tokenizer = Tokenizer(_model({}))
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
        return _model(learner.get_vocab())

    def train(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary, characters first: the texts are read twice."""
        texts = list(texts) if isinstance(texts, Iterator) else texts
        # Cut as the trainer does: Python takes four control characters more for white space.
        cut = self.pipeline().pre_tokenizer.pre_tokenize_str
        words = (word for text in texts for word, _ in cut(self._cleaning.normalize_str(text)))
        pieces = {piece for word in words for piece in (word[0], *(_INSIDE + inner for inner in word[1:]))}
        self._alphabet = sorted(pieces)
        super().train(texts)


def _model(vocabulary: dict[str, int]) -> models.WordPiece:
    return models.WordPiece(
        vocabulary,
        unk_token=SPECIAL_TOKENS[UNKNOWN],
        max_input_chars_per_word=_LONGEST_WORD,
        continuing_subword_prefix=_INSIDE,
    )
