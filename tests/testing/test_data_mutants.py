"""Every check of data catches a fault that it is there for."""

import random

from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDatasetDict, Value
from tests.columns import LABELS, PAIRS
from tests.testing.mutants import mutant_tests

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Data
from plugformer.kinds import Kind
from plugformer_testing import run


class Pairs(Data):
    """Sound data for both types of task."""

    splits = ("train", "validation", "test_2016")
    target = "b"

    def load(self, columns):
        if columns == LABELS:
            features = Features(text=Value("string"), label=ClassLabel(names=["no", "yes"]))
            rows = Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)
        elif columns == PAIRS:
            rows = Dataset.from_dict({"source": ["a"], "target": [self.target], "references": [["b", "c"]]})
        else:
            raise ConfigurationError("there are pairs and labels alone")
        return DatasetDict(dict.fromkeys(self.splits, rows))


class ServesNothing(Data):
    def load(self, columns):
        raise DataError("not today")


class WithoutTrain(Pairs):
    splits = ("validation",)


class MisnamedSplit(Pairs):
    splits = ("train", "dev")


class BlankTarget(Pairs):
    target = " \t"


class NumberedLabels(Pairs):
    def load(self, columns):
        rows = Dataset.from_dict({"text": ["a"], "label": [0]})
        return DatasetDict({"train": rows})


class WithoutColumns(Pairs):
    def load(self, columns):
        return DatasetDict({"train": Dataset.from_dict({"input": ["a"], "output": ["b"]})})


class FindsFault(Pairs):
    def problems(self, columns):
        yield ("files",), "too few"


class Shuffles(Pairs):
    target = property(lambda self: str(random.random()))  # noqa: S311 (a fault, not a secret)


class HashesWithTheProcess(Pairs):
    def version(self):
        return str(hash("some files"))


class ForgetsItsVersion(Pairs):
    rows = "none"

    def load(self, columns):
        self.rows = "two"
        return super().load(columns)

    def version(self):
        return self.rows


class NumbersItsVersion(Pairs):
    def version(self):
        return 3


class StreamsBackwards(Pairs):
    def stream(self, columns):
        splits = self.load(columns).items()
        return IterableDatasetDict(
            {name: split.select(range(len(split))[::-1]).to_iterable_dataset() for name, split in splits}
        )


class StreamsTheRestAnew(Pairs):
    def stream(self, columns):
        splits = super().stream(columns)
        for split in splits.values():
            split.load_state_dict = lambda state: None
        return splits


class StreamsLessSplits(Pairs):
    def stream(self, columns):
        return IterableDatasetDict({"train": super().stream(columns)["train"]})


MUTANTS = [
    (ServesNothing, "serves_a_type_of_task", "it serves no type of task: not today"),
    (WithoutTrain, "splits_have_their_names", "there is no train split, only validation"),
    (MisnamedSplit, "splits_have_their_names", "split 'dev' is none of train"),
    (BlankTarget, "examples_fit_the_task", r"the target of example 0 of split 'train' is ' \\t'"),
    (NumberedLabels, "examples_fit_the_task", "has no column source|expected a ClassLabel"),
    (WithoutColumns, "examples_fit_the_task", r"no column source, target, only \['input', 'output'\]"),
    (FindsFault, "what_loads_has_no_problems", "problems finds .*'too few'.*, but load reads the examples"),
    (Shuffles, "loading_is_repeatable", "the target column of split 'train' holds something else"),
    (StreamsBackwards, "a_stream_has_the_same_examples", "'train' holds other examples than loaded"),
    (StreamsTheRestAnew, "a_stream_has_the_same_examples", "goes on with other examples from its saved"),
    (StreamsLessSplits, "a_stream_has_the_same_examples", r"the splits are \['train'\], not"),
    (HashesWithTheProcess, "version_is_repeatable", "in another process, the version is"),
    (ForgetsItsVersion, "version_is_repeatable", "after loading, the version is 'two' instead of 'none'"),
    (NumbersItsVersion, "version_is_repeatable", "the version is 3, expected a text"),
]


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.DATA)


class RefusesInSilence(Data):
    def load(self, columns):
        raise ConfigurationError


def test_a_refusal_without_a_message_is_one():
    outcomes = run(RefusesInSilence).outcomes
    assert "it serves no type of task: ConfigurationError: no message; " in outcomes[0].message
    assert outcomes[1].message == "ConfigurationError: no message"


def test_sound_data_pass():
    assert run(Pairs).summary() == "7 of 7 checks passed"
