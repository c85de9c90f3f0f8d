"""The files of tokenizers, which programs without Plugformer read with the library `tokenizers`."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers

from plugformer.interfaces import SPECIAL_TOKENS, Tokenizer
from plugformer.runs import TrainedModel
from plugformer_blocks import PipelineTokenizer

PROBED = 2000
"""Maximum number of tokens whose texts are encoded by the file alone, to see whether it is enough."""


def spellings(trained: TrainedModel) -> list[list[str]]:
    """Returns the vocabularies as their files spell them."""
    found: list[Any] = [*trained.processor.by_side.values()]
    return [[*map(tokenizer.spelling, range(tokenizer.size))] for tokenizer in found]


def pipeline_of(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Returns a tokenizer's file, read by the library `tokenizers`."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(file)
        return tokenizers.Tokenizer.from_file(str(file))


def probes(tokenizer: Tokenizer, numbers: Sequence[int]) -> list[str]:
    """Returns texts with most of some tokens."""
    return tokenizer.decode([numbers[start : start + 10] for start in range(0, len(numbers), 10)])


def tokenizer_problems(trained: TrainedModel) -> list[str]:
    """Returns the tokenizers whose files do not say all that they do."""
    return [
        f"tokenizer ({side}): its file alone, read by `tokenizers`, encodes texts differently; it"
        for side, tokenizer in trained.processor.by_side.items()
        if not is_enough(tokenizer)
    ]


def is_enough(tokenizer: Tokenizer) -> bool:
    """Returns whether the `tokenizers` library encodes and decodes with the file as the tokenizer does."""
    if not isinstance(tokenizer, PipelineTokenizer):
        return False
    alone = pipeline_of(tokenizer)
    texts = probes(tokenizer, range(len(SPECIAL_TOKENS), min(tokenizer.size, PROBED)))
    rows = tokenizer.encode(texts)
    if rows != [alone.encode(text, add_special_tokens=False).ids for text in texts]:
        return False
    return tokenizer.decode(rows) == [alone.decode(row) for row in rows]
