"""Weights that examples have in a column, and targets that differ in number."""

import numpy as np
import pytest
import torch

from plugformer.data import EncodedSplit
from plugformer.data.processor import sample_subwords
from plugformer.errors import DataError, RegistryError
from plugformer.interfaces import ABSENT, Column, Input, Level, OutputType, Ragged, TaskType
from plugformer.model import Limits
from plugformer_plugins.architecture.decoder_only import DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.task_type.language_modelling import LanguageModelling
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_testing.small import SmallTask

PAIRS = {"source": ["abc", "de", "f"], "target": ["ab", "cde", "f"], "weight": [0.0, 2.5, 1.0]}


class Weighted(SequenceToSequence):
    """Weighs examples by a column that data may lack."""

    @property
    def columns(self):
        return (*super().columns, Column("weight", "number", "input", optional=True))

    def encode(self, examples, tokenizers):
        weights = [1.0 if weight is None else weight for weight in examples["weight"]]
        return {**super().encode(examples, tokenizers), "weights": weights}


class Ramp(SequenceToSequence):
    """Weighs each token of the output by its place, END included."""

    def encode(self, examples, tokenizers):
        found = dict(super().encode(examples, tokenizers))
        if "output" in found:
            found["weights"] = [list(range(len(output) + 1)) for output in found["output"]]
        return found


class Marks(TaskType):
    """Predicts a mark for each text of an example, however many it has."""

    level = Level.VECTOR
    output_type = OutputType.NUMBER
    outputs = 1
    columns = (
        Column("texts", "texts", "input", tokenizer="source"),
        Column("marks", "numbers", "output", along="texts"),
    )
    inputs = (Input("texts", many=True),)

    def encode(self, examples, tokenizers):
        found = {"texts": [tokenizers.source.encode(texts) for texts in examples["texts"]]}
        return {**found, "targets": examples["marks"]} if "marks" in examples else found


def test_weights_of_a_column_multiply_losses():
    batch = SmallTask(Weighted(), PAIRS).split(architecture=EncoderDecoder()).batch([2, 1, 0])
    assert batch.weights.tolist() == [1.0, 2.5, 0.0]
    assert batch.weights.dtype == torch.float32


def test_questions_have_no_weights():
    split = SmallTask(Weighted(), PAIRS).split({"source": ["ab"]}, inference=True)
    assert split.batch([0]).weights is None


@pytest.mark.parametrize("architecture", [EncoderDecoder(), DecoderOnly()])
def test_weights_of_the_next_tokens_are_where_these_are_predicted(architecture):
    task = SmallTask(Ramp(), PAIRS)
    batch = task.split(architecture=architecture).batch([0, 1, 2], lengths=[12] * len(architecture.stacks))
    model = task.model(architecture)
    _, real = model.targets(batch)
    assert batch.weights.shape == real.shape
    assert [row[marks].tolist() for row, marks in zip(batch.weights, real, strict=True)] == [
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1],
    ]
    loss = model(batch).total
    each = -model.logits(batch).log_softmax(-1).gather(2, model.targets(batch)[0][..., None])[..., 0]
    torch.testing.assert_close(loss, (each * batch.weights)[real].sum())


def test_weights_are_cut_with_their_tokens():
    encoded = SmallTask(Ramp(), PAIRS).encoded()
    split = EncodedSplit([{}] * 3, encoded, Ramp(), EncoderDecoder(), limits={"output": 2})
    assert split.batch([1]).weights.tolist() == [[0, 1, 2]]


def test_weights_of_tokens_are_sampled_with_these():
    task = SmallTask(Ramp(), PAIRS)
    generators = [np.random.default_rng(row) for row in range(3)]
    rows = [{name: PAIRS[name][row] for name in ("source", "target")} for row in range(3)]
    limits = Limits(9, 2, 20)
    encoded = task.known.encode_examples(PAIRS, str)
    again = sample_subwords(encoded, rows, generators, processor=task.known, limits=limits, truncate=True)
    assert again.output.lengths.tolist() == [2, 2, 1]
    assert again.weights.rows() == [[0, 1, 2], [0, 1, 2], [0, 1]]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), None])
def test_a_weight_that_is_none_is_named_with_its_row(weight):
    class Plain(Weighted):
        def encode(self, examples, tokenizers):
            return {**super().encode(examples, tokenizers), "weights": examples["weight"]}

    examples = {**PAIRS, "weight": [1.0, weight, 1.0]}
    with pytest.raises(DataError, match=r"line 1: its weight is (-1.0|nan)"):
        SmallTask(Plain(), PAIRS).known.encode_examples(examples, lambda row: f"line {row}")


def test_texts_that_are_cut_into_pieces_have_no_weights():
    class OfTexts(LanguageModelling):
        def encode(self, examples, tokenizers):
            return {**super().encode(examples, tokenizers), "weights": [1.0] * len(examples["text"])}

    task = SmallTask(OfTexts(), {"text": ["abc", "de"]})
    with pytest.raises(RegistryError, match="OfTexts: `encode` returns weights of texts that are cut"):
        task.split(packed=True)


def test_targets_that_differ_in_number_are_padded_in_a_batch():
    examples = {"texts": [["a", "b"], ["c"], ["d", "e", "f"]], "marks": [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]}
    split = SmallTask(Marks(), examples).split()
    assert isinstance(split._numbers.targets, Ragged)
    targets = split.batch([0, 1]).targets
    assert targets.dtype == torch.float32
    assert targets.nan_to_num(-1).tolist() == [[1, 2], [3, -1]]
    assert split.batch([2]).targets.tolist() == [[4, 5, 6]]


def test_targets_are_not_cut_with_the_input():
    class Counts(MaskedLanguageModelling):
        level = Level.SEQUENCE
        output_type = OutputType.LABEL
        outputs = 9
        draw = TaskType.draw

        def encode(self, examples, tokenizers):
            tokens = tokenizers.source.encode(examples["text"])
            return {"input": tokens, "targets": [list(range(2 * len(row))) for row in tokens]}

    batch = (
        SmallTask(Counts(), {"text": ["ab", "c"]}).split(architecture=EncoderOnly(), limit=1).batch([0, 1])
    )
    assert batch.source.ids.shape[1] == 3  # BEGIN, a token, END
    assert batch.targets.tolist() == [[0, 1, 2, 3], [0, 1, ABSENT, ABSENT]]
