"""One token for each character of the training texts."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer


class NewComponent(FastTokenizer):
    """A vocabulary of the characters of the training texts; any other character is UNKNOWN.

    The library's models and trainers: https://huggingface.co/docs/tokenizers/api/models.
    """

    def pipeline(self) -> Tokenizer:
        """Returns a tokenizer that separates all characters, with an empty vocabulary."""
        tokenizer = Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")  # (?m): also line breaks
        tokenizer.decoder = decoders.Fuse()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer for the vocabulary; the special tokens come first."""
        special = list(SPECIAL_TOKENS)
        return trainers.WordLevelTrainer(vocab_size=2**48, special_tokens=special, show_progress=False)
