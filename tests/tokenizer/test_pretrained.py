"""Tokenizers that others have trained."""

from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from plugformer.errors import DataError
from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN
from plugformer_plugins.tokenizer.pretrained import Pretrained

TEXTS = ["the cat sat on the mat", "a dog and a cat </s> sat"] * 5


def sentencepiece() -> tokenizers.Tokenizer:
    """A unigram model that has its special tokens among its pieces, as T5 and XLM-R do."""
    pieces = [("<s>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(f"▁{word}", -3.0) for word in ["the", "cat", "sat", "on", "mat", "a", "dog"]]
    pieces += [(letter, -6.0) for letter in "▁abcdefghijklmnopqrstuvwxyz"]
    made = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    made.enable_padding(length=12)
    made.enable_truncation(4)
    return made


def bytes_pairs() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def prepending() -> tokenizers.Tokenizer:
    """A normalizer puts a space before every text, as those of Llama 2 and Mistral do."""
    letters = "▁abcdefghijklmnopqrstuvwxyz</>"
    vocabulary = {spelling: number for number, spelling in enumerate(["<unk>", *letters])}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))  # noqa: S106 (no password)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    made.add_special_tokens(["</s>"])
    return made


@pytest.fixture(params=[sentencepiece, bytes_pairs, prepending])
def original(request: pytest.FixtureRequest) -> tokenizers.Tokenizer:
    made: tokenizers.Tokenizer = request.param()
    return made


@pytest.fixture
def tokenizer(original: tokenizers.Tokenizer, tmp_path: Path) -> Pretrained:
    original.save(str(tmp_path / "theirs.json"))
    made = Pretrained(path=tmp_path / "theirs.json")
    made.train([])
    return made


def test_numbers_are_moved_up_by_four(original: tokenizers.Tokenizer, tokenizer: Pretrained) -> None:
    original.no_padding()
    original.no_truncation()
    expected = [original.encode(text, add_special_tokens=False).ids for text in TEXTS[:1]]
    assert tokenizer.encode(TEXTS[:1]) == [[number + 4 for number in row] for row in expected]
    assert tokenizer.size == original.get_vocab_size() + 4
    assert tokenizer.tokens(range(4)) == list(SPECIAL_TOKENS)


def test_words_have_the_tokens_of_their_text(tokenizer: Pretrained) -> None:
    for text in TEXTS[:2]:
        together = [number for word in tokenizer.encode_words(text.split()) for number in word]
        assert together in tokenizer.encode([text, f" {text}"])
        assert "▁▁" not in "".join(tokenizer.tokens(together))


def test_text_comes_back(tokenizer: Pretrained) -> None:
    rows = tokenizer.encode(["the cat sat on a mat"])
    assert tokenizer.decode([[BEGIN, *rows[0], END, PADDING]]) == ["the cat sat on a mat"]
    assert "<unk>" in tokenizer.decode([[*rows[0], UNKNOWN]])[0]


@pytest.mark.parametrize("text", ["</s>", "<s>", "<|endoftext|>", "the </s> cat", *SPECIAL_TOKENS])
def test_no_special_token_of_either_comes_out_of_text(
    original: tokenizers.Tokenizer, tokenizer: Pretrained, text: str
) -> None:
    theirs = {number + 4 for number, token in original.get_added_tokens_decoder().items() if token.special}
    numbers = set(tokenizer.encode([text])[0])
    assert numbers
    assert not numbers & (theirs | {PADDING, BEGIN, END})


def test_their_unknown_is_ours(tmp_path: Path) -> None:
    sentencepiece().save(str(tmp_path / "theirs.json"))
    tokenizer = Pretrained(path=tmp_path / "theirs.json")
    tokenizer.train([])
    assert UNKNOWN in tokenizer.encode(["雨"])[0]
    assert "<unk>" in tokenizer.decode(tokenizer.encode(["雨"]))[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"path: .*gone\.json"):
        Pretrained(path=tmp_path / "gone.json").train([])
