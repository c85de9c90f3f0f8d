"""The bases of tokenizers built on Hugging Face `tokenizers`."""

import itertools
import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import tokenizers
from tokenizers import AddedToken, decoders
from tokenizers.models import BPE, Model
from tokenizers.trainers import Trainer

from plugformer.errors import DataError, RunError
from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer

_NO_TEXT = frozenset({PADDING, BEGIN, END})

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(0x100) if byte not in _VISIBLE]
_BYTES = {chr(byte): byte for byte in _VISIBLE} | {chr(0x100 + n): byte for n, byte in enumerate(_HIDDEN)}
"""GPT-2's alphabet: visible characters of Latin-1 stand for their bytes, those from U+0100 for the others."""


class PipelineTokenizer(Tokenizer):
    """Tokens of a Hugging Face pipeline as text, spellings and bytes; a subclass gives it and encodes.

    The pipeline, `_tokenizer`, is a new object after each `train` and `load`.
    """

    _tokenizer: tokenizers.Tokenizer

    def spelling(self, number: int) -> str:
        """Returns a token as the vocabulary holds it; empty for a number that the vocabulary lacks."""
        return self._tokenizer.id_to_token(number) or ""

    def join(self, tokens: list[str]) -> str:
        """Returns the text that tokens spell: by the pipeline's decoder, or with spaces if it has none."""
        decoder = self._tokenizer.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text, without PADDING, BEGIN and END."""
        spelled = (
            ["<unk>" if token == UNKNOWN else self.spelling(token) for token in row if token not in _NO_TEXT]
            for row in rows
        )
        return list(map(self.join, spelled))

    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns each token's spelling; bytes are shown as the text they are, or as a replacement mark."""
        spelled = [self.spelling(number) for number in row]
        bytewise = isinstance(self._tokenizer.decoder, decoders.ByteLevel)
        return [self.join([token]) for token in spelled] if bytewise else spelled

    def token_bytes(self, *, at_start: bool) -> list[bytes]:
        """Returns the bytes that each token adds to a text; tokens of bytes may be parts of characters."""
        if not isinstance(self._tokenizer.decoder, decoders.ByteLevel):
            return super().token_bytes(at_start=at_start)
        ordinary = range(len(SPECIAL_TOKENS), self.size)
        return [b""] * len(SPECIAL_TOKENS) + [_byte_piece(self.spelling(number)) for number in ordinary]

    def save(self, file: Path) -> None:
        """Writes tokenizer.json."""
        file.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")


class ForeignTokenizer(PipelineTokenizer):
    """A tokenizer.json that was trained elsewhere; a subclass numbers its tokens.

    Its post-processor, padding and truncation are not used.

    Args:
        path: The file; read in training only, since a run keeps a copy.

    Attributes:
        name: The name of the component.
    """

    name: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self._path = path
        self.use(tokenizers.Tokenizer(BPE()))

    def use(self, pipeline: tokenizers.Tokenizer) -> None:
        """Takes a pipeline; a subclass numbers its tokens."""
        pipeline.no_padding()
        pipeline.no_truncation()
        pipeline.encode_special_tokens = True
        self._tokenizer = pipeline

    @property
    def special_numbers(self) -> set[int]:
        """The numbers there of special tokens that are added to the model."""
        added = self._tokenizer.get_added_tokens_decoder()
        return {number for number, token in added.items() if token.special}

    @property
    def unknown_numbers(self) -> set[int]:
        """The number there of the model's own unknown token, if it has one."""
        model = json.loads(self._tokenizer.to_str())["model"]
        numbers = model.get("unk_id"), self._tokenizer.token_to_id(model.get("unk_token") or "")
        return {number for number in numbers if number is not None}

    def train(self, texts: Iterable[str]) -> None:
        """Reads the file.

        Raises:
            DataError: The file is missing or no tokenizer.json.
        """
        del texts
        try:
            self.load(self._path)
        except RunError as error:
            raise DataError(f"tokenizer {self.name!r}: path: {error}") from error

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each word; no space is added where the pipeline itself begins with one."""
        one, two = self.encode(["a", "a a"])
        return self.encode(words) if two == one + one else super().encode_words(words)

    def load(self, file: Path) -> None:
        """Reads a tokenizer.json."""
        self.use(read_pipeline(file))


class FastTokenizer(PipelineTokenizer):
    """A pipeline of normalizer, pre-tokenizer, model and decoder, learned by the library's own trainer.

    A subclass defines `pipeline`, without a post-processor, and `trainer`. It may override `split`, to cut
    texts into words in Python before the pipeline sees them (tokenizer.json cannot hold a custom
    pre-tokenizer), `join`, to put tokens together again, and `learned`, where its trainer's vocabulary
    differs from process to process.
    """

    def __init__(self) -> None:
        self._tokenizer = self.pipeline()

    @abstractmethod
    def pipeline(self) -> tokenizers.Tokenizer:
        """Returns a new pipeline with an empty model."""

    @abstractmethod
    def trainer(self) -> Trainer:
        """Returns a new trainer for the pipeline's model; its special tokens start with SPECIAL_TOKENS."""

    def split(self, text: str) -> list[str]:
        """Cuts a text into words, each of which goes through the pipeline alone; one word by default."""
        return [text]

    def learned(self, learner: tokenizers.Tokenizer) -> Model:
        """Returns the trained model, its vocabulary in an order that no process or thread changes.

        The trainers of word-level and BPE models keep one as they are.
        """
        model: Model = learner.model
        return model

    def train(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary; blank texts before the first other one are passed over."""
        remaining = iter(texts)
        first = next((text for text in remaining if text.strip()), None)
        if first is None:
            raise DataError("no text to learn a vocabulary from: every training text is empty")
        learner = self.pipeline()
        words = (word for text in itertools.chain([first], remaining) for word in self.split(text))
        learner.train_from_iterator(words, self.trainer())
        self._tokenizer = self.pipeline()
        self._tokenizer.model = self.learned(learner)
        self._protect()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers; a word that spells a special token is an unknown word."""
        words = [self.split(text) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(words, is_pretokenized=True, add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]  # a new list at each access
        return [
            row if _NO_TEXT.isdisjoint(row) else [UNKNOWN if token in _NO_TEXT else token for token in row]
            for row in rows
        ]

    def unknown(self, text: str) -> list[str]:
        """Returns the parts of a text that become UNKNOWN, as the text spells them."""
        words = self.split(text)
        encoding = self._tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
        pieces = zip(encoding.ids, encoding.word_ids, encoding.offsets, strict=True)
        return [
            words[word][start:end]
            for token, word, (start, end) in pieces
            if word is not None and (token == UNKNOWN or token in _NO_TEXT)
        ]

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return self._tokenizer.get_vocab_size()

    def load(self, file: Path) -> None:
        """Reads tokenizer.json."""
        self._tokenizer = read_pipeline(file)
        self._protect()

    def _protect(self) -> None:
        """Keeps text that spells a special token apart from the token itself; the file cannot hold this."""
        self._tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
        self._tokenizer.encode_special_tokens = True


def read_pipeline(file: Path) -> tokenizers.Tokenizer:
    """Returns the pipeline of a tokenizer.json; raises RunError if the file is missing or damaged."""
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception for any damage
        raise RunError(
            f"{file}: {error}; expected the tokenizer.json of a trained tokenizer; restore it, or train again"
        ) from error


def _byte_piece(token: str) -> bytes:
    """Returns the bytes of a byte-level token; an added one, of other characters, has those of its text."""
    if _BYTES.keys() >= set(token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()
