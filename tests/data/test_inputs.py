"""Texts to be answered: cut, refused or read as the task says, and what no vocabulary can spell."""

import pytest

from plugformer.configuration.task import Length
from plugformer.data.processor import Inputs, Processor
from plugformer.errors import DataError, LengthError
from plugformer.experiment import Experiment
from plugformer.interfaces import Column, Level
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_plugins.tokenizer.word_level import Characters


@pytest.fixture
def read(tiny_task, registry):
    """Reads texts with a vocabulary of lower-case letters, at most 39 of them."""
    tokenizer = Characters()
    tokenizer.train(["abcdefghijklmnopqrstuvwxyz "])

    def read(*texts, task_type=None, **length):
        task, task_type = tiny_task("model.max_length=40"), task_type or SequenceToSequence()
        data = task.data.model_copy(update={"length": Length(**length)})
        processor = Processor(tokenizer, tokenizer, task_type)
        architecture = EncoderOnly() if task_type.level is Level.TOKEN else EncoderDecoder()
        experiment = Experiment(task.model_copy(update={"data": data}), registry, task_type, architecture)
        return Inputs.of(texts, experiment, processor)

    return read


@pytest.mark.parametrize("over", ["drop", "refuse"])
def test_too_long_a_text_has_a_fault_and_the_others_none(read, over):
    inputs = read("ab", "c" * 40, "d" * 39, over=over)
    assert isinstance(inputs.faults[1], LengthError)
    assert "'cccc" in str(inputs.faults[1])
    assert "has 40 tokens, the model takes at most 39" in str(inputs.faults[1])
    assert inputs.answerable == [0, 2]
    assert not inputs.truncated


def test_a_task_that_truncates_truncates_to_its_own_limit(read):
    inputs = read("ab", "c" * 40, over="truncate")
    assert (inputs.faults, inputs.truncated) == ({}, {1})
    assert inputs.split.lengths.tolist() == [[3, 0], [40, 0]]
    assert read("abcd", over="truncate", max=3).split.lengths.tolist() == [[4, 0]]


def test_a_limit_of_training_examples_refuses_no_text(read):
    assert read("abcd", over="drop", max=3).answerable == [0]


def test_what_is_no_unicode_is_told(read):
    inputs = read("a", b"b\xe4d".decode(errors="surrogateescape"), "\ud800")
    assert isinstance(inputs.faults[1], DataError)
    assert str(inputs.faults[1]).startswith("'b\\udce4d' is not UTF-8 at character 2")
    assert inputs.answerable == [0]


def test_characters_that_the_vocabulary_lacks(read):
    assert read("a€b☃€", "abc").unknown == {0: ("€", "☃")}


def test_a_request_makes_no_data_set(read, monkeypatch):
    """One takes longer to make than an answer: it is pickled to be hashed."""

    def refuse(*_, **__):
        raise AssertionError("a data set was made")

    monkeypatch.setattr("datasets.Dataset.__init__", refuse)
    split = read("ab", "c d").split
    assert [split.input(row) for row in range(2)] == ["ab", "c d"]
    assert split.batch([1, 0]).asked(0) == {"source": "c d"}


class Trees(Tagging):
    """Tags of words, given the number of each word's head."""

    columns = (Tagging.columns[0], Column("heads", "numbers", "input", along="words"), *Tagging.columns[1:])

    def encode(self, examples, tokenizers):
        for words, heads in zip(examples["words"], examples["heads"], strict=True):
            assert len(words) == len(heads)
        return super().encode(examples, tokenizers)


def test_a_list_along_another_has_as_many_items(read):
    good, bad = {"words": "a b", "heads": "0 1"}, {"words": "a b c", "heads": [0, 1]}
    task_type = Trees()
    task_type.state = ["x"]
    inputs = read(good, bad, task_type=task_type)
    assert inputs.answerable == [0]
    assert isinstance(inputs.faults[1], DataError)
    assert "3 words and 2 heads; expected one of the heads for each of the words" in str(inputs.faults[1])


def test_a_question_may_be_an_example(read):
    inputs = read({"source": "ab"}, {"sauce": "ab"}, "ab")
    assert inputs.answerable == [0, 2]
    assert "found sauce, expected source" in str(inputs.faults[1])
    assert inputs.split.batch([0]).source.ids.tolist() == inputs.split.batch([2]).source.ids.tolist()
