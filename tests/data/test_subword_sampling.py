"""Tokenizers that draw how they cut texts: when, from what, and what fits."""

from copy import copy

import pytest
from tests.pieces import Pieces

from plugformer.configuration.task import DataBlock, ModelSettings, Task
from plugformer.data.arrow import limited
from plugformer.data.processor import Processor
from plugformer.experiment import Experiment
from plugformer.interfaces import ABSENT
from plugformer_plugins.architecture.decoder_only import DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_plugins.task_type.tagging import Tagging

SOURCES = ["the quick brown fox jumps over the lazy dog"] * 3
TARGETS = ["nobody has seen the red house"] * 3
PAIRS = {"source": SOURCES, "target": TARGETS}


class Doubling(Pieces):
    """Draws which of its tokens come twice."""

    generator = None

    def sampling(self, generator):
        drawing = copy(self)
        drawing.generator = generator
        return drawing

    def encode(self, texts):
        rows = super().encode(texts)
        if self.generator is None:
            return rows
        return [[number for number in row for _ in range(self.generator.integers(1, 3))] for row in rows]


def split(task_type, architecture, examples, *, drawing=Doubling, max_length=128, length=None):
    texts = [text for values in examples.values() for text in values if isinstance(text, str)]
    tokenizer = drawing([*SOURCES, *TARGETS, *texts])
    known = Processor(tokenizer, tokenizer, task_type)
    block = DataBlock.model_validate({"name": "-", "length": length or {}})
    task = Task.model_construct(data=block, model=ModelSettings.model_construct(max_length=max_length))
    rows = [dict(zip(examples, values, strict=True)) for values in zip(*examples.values(), strict=True)]
    encoded, experiment = (
        known.encode_examples(examples, str),
        Experiment(task, None, task_type, architecture),
    )
    return limited(rows, encoded, experiment, known, str, training=True)[0]


def rows(tokens):
    return [row[real].tolist() for row, real in zip(tokens.ids, tokens.mask, strict=True)]


def read(made, **given):
    batch = made.batch(range(len(made)), **given)
    return rows(batch.source), rows(batch.target)


def plain(task_type, architecture, examples, **given):
    return read(split(task_type, architecture, examples, drawing=Pieces, **given))


def once(row):
    """Returns a row without repetitions of the token before."""
    return [number for number, before in zip(row, [None, *row], strict=False) if number != before]


def test_every_epoch_of_training_draws_anew():
    made = split(SequenceToSequence(), EncoderDecoder(), PAIRS)
    first, again, second = read(made, epoch=[1, 0]), read(made, epoch=[1, 0]), read(made, epoch=[1, 1])
    assert first == again
    undrawn = plain(SequenceToSequence(), EncoderDecoder(), PAIRS)
    for side, other, expected in zip(first, second, undrawn, strict=True):
        assert len({str(row) for row in (*side, *other)}) == 6
        assert [once(row) for row in side] == [once(row) for row in expected]


def test_a_draw_does_not_depend_on_the_batch():
    made = split(SequenceToSequence(), EncoderDecoder(), PAIRS)
    whole, alone = made.batch([0, 1, 2], epoch=[1, 0]), made.batch([2], epoch=[1, 0])
    assert rows(alone.source)[0] == rows(whole.source)[2]
    assert rows(alone.target)[0] == rows(whole.target)[2]


def test_evaluation_draws_nothing():
    made = split(SequenceToSequence(), EncoderDecoder(), PAIRS)
    assert read(made) == plain(SequenceToSequence(), EncoderDecoder(), PAIRS)


@pytest.mark.parametrize("architecture", [EncoderDecoder(), DecoderOnly()])
def test_a_draw_that_does_not_fit_is_not_used(architecture):
    """Without repetitions source and target have 25 and 17 tokens, with them about 37 and 25."""
    made = split(SequenceToSequence(), architecture, PAIRS, max_length=45, length={"over": "drop"})
    undrawn = plain(SequenceToSequence(), architecture, PAIRS, max_length=45, length={"over": "drop"})
    drawn = [read(made, epoch=[1, epoch]) for epoch in range(20)]
    longest = max(len(row) for each in drawn for side in each for row in side)
    assert longest <= 45
    if isinstance(architecture, DecoderOnly):  # both sides together are always too long
        assert all(each == undrawn for each in drawn)


def test_what_a_task_truncates_is_truncated_after_the_draw():
    limit = {"max": 10, "over": "truncate"}
    made = split(SequenceToSequence(), EncoderDecoder(), PAIRS, length=limit)
    drawn, undrawn = read(made, epoch=[1, 0]), plain(SequenceToSequence(), EncoderDecoder(), PAIRS)
    for side, expected, special in zip(drawn, undrawn, (1, 2), strict=True):
        for row, whole in zip(side, expected, strict=True):
            assert len(row) == 10 + special
            tokens = once(row[special - 1 : -1])
            assert tokens == once(whole[special - 1 : -1])[: len(tokens)]


@pytest.mark.parametrize("over", ["refuse", "truncate"])
def test_tags_go_with_their_words(over):
    task_type = Tagging()
    task_type.state = ["A", "B"]
    examples = {"words": [["the", "quick", "brown"], ["fox"]], "tags": [["A", "B", "A"], ["B"]]}
    made = split(task_type, EncoderOnly(), examples, length={"max": 8, "over": over})
    for epoch in range(10):
        batch = made.batch([0, 1], epoch=[1, epoch])
        assert batch.targets.shape == batch.source.ids.shape
        assert batch.targets[1][batch.targets[1] != ABSENT].tolist() == [1]
        assert batch.source.ids.shape[1] <= 10


def test_tokenizers_that_draw_nothing_encode_nothing_again(monkeypatch):
    made = split(SequenceToSequence(), EncoderDecoder(), PAIRS, drawing=Pieces)
    monkeypatch.setattr(SequenceToSequence, "encode", None)
    made.batch([0, 1], epoch=[1, 0])
