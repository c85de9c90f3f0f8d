"""Masked language modelling: which tokens are drawn, and when."""

import numpy as np
import pytest
from tests.pieces import Pieces

from plugformer.configuration.task import Task
from plugformer.data.processor import Inputs, Processor
from plugformer.experiment import Experiment
from plugformer.interfaces import ABSENT, UNKNOWN, Encoded, Ragged, Tokenizers
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_plugins.tokenizer.subwords import BPE, Unigram, WordPiece
from plugformer_plugins.tokenizer.word_level import Characters, Words
from plugformer_testing.small import SmallTask

LENGTH, TEXTS = 100, 50


def drawn(share):
    tokens = Ragged(np.tile(np.arange(4, 4 + LENGTH), TEXTS), np.full(TEXTS, LENGTH))
    none = Ragged(np.full(TEXTS * LENGTH, ABSENT), tokens.lengths)
    generators = [np.random.default_rng(row) for row in range(TEXTS)]
    return tokens, MaskedLanguageModelling(share=share).draw(
        Encoded({"input": tokens}, targets=none), generators
    )


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_a_share_is_drawn_of_which_most_are_masked(share):
    tokens, found = drawn(share)
    chosen = found.targets.values != ABSENT
    assert chosen.sum() == TEXTS * LENGTH * share
    assert (found.targets.values[chosen] == tokens.values[chosen]).all()
    assert (found.input.values[~chosen] == tokens.values[~chosen]).all()
    masked = found.input.values[chosen] == UNKNOWN
    same = found.input.values[chosen] == tokens.values[chosen]
    assert masked.mean() == pytest.approx(0.8, abs=0.06)
    assert same.mean() == pytest.approx(0.1, abs=0.05)


def test_masks_are_fixed_in_evaluation_and_differ_by_epoch():
    task_type = MaskedLanguageModelling()
    examples = {"text": ["the quick brown fox jumps over the lazy dog again and again"] * 2}
    split = SmallTask(task_type, examples).split()

    def masks(**given):
        return split.batch([0, 1], **given).targets.tolist()

    assert masks() == masks()
    assert masks(epoch=[1, 1]) == masks(epoch=[1, 1])
    assert len({str(masks()), str(masks(epoch=[1, 1])), str(masks(epoch=[1, 2]))}) == 3
    assert masks()[0] != masks()[1]


def test_a_question_asks_for_its_masks_alone():
    task_type = MaskedLanguageModelling()
    pieces = Pieces(["a cat sat"])
    encoded = task_type.encode({"text": ["a [MASK] sat", "a cat"]}, Tokenizers(pieces, pieces))
    assert encoded["input"][0].count(UNKNOWN) == 1
    assert [row.count(0) for row in encoded["targets"]] == [1, 0]
    assert encoded["targets"][0][encoded["input"][0].index(UNKNOWN)] == 0


@pytest.mark.parametrize(
    ("tokenizer", "question"),
    [
        (BPE(size=300), "the [MASK] sat"),
        (BPE(size=300), "the cat[MASK]"),
        (Unigram(size=30), "the [MASK] sat"),
        (WordPiece(size=60), "the [MASK] sat"),
        (Words(), "the [MASK] sat"),
        (Characters(), "the [MASK]at sat"),
        (Characters(), "the[MASK]cat sat"),
    ],
)
def test_a_question_reads_as_a_text_of_training_with_a_masked_token(tokenizer, question):
    """A space before a mask is part of the masked token where the tokenizer keeps the two together."""
    text = "the cat sat"
    tokenizer.train([text] * 20)
    (row,) = MaskedLanguageModelling().encode({"text": [question]}, Tokenizers(tokenizer, tokenizer))["input"]
    (whole,) = tokenizer.encode([text])
    place = row.index(UNKNOWN)
    behind = row[place + 1 :]
    assert row[:place] == whole[:place]
    assert behind == whole[len(whole) - len(behind) :]


@pytest.mark.parametrize(
    ("tokenizer", "questions", "unknown"),
    [
        (Pieces(["a cat sat"]), ["a [MASK] sat", "a dog [MASK]"], {1: ("dog",)}),
        (Characters(), ["ab[MASK]ba", "[MASK]", "ab[MASK]c[MASK]"], {2: ("c",)}),  # that learns no space
    ],
)
def test_a_mask_is_not_reported_as_unknown(registry, tokenizer, questions, unknown):
    task_type = MaskedLanguageModelling()
    if isinstance(tokenizer, Characters):
        tokenizer.train(["abba"])
    known = Processor(tokenizer, tokenizer, task_type)
    block = {"name": "-"}
    model = {"architecture": block, "head": block}
    task = Task.model_validate({"type": block, "data": block, "tokenizer": block, "model": model})
    experiment = Experiment(task, registry, task_type, EncoderOnly())
    assert Inputs.of(questions, experiment, known).unknown == unknown
