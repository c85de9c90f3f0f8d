"""Every check of data catches a fault that it is there for."""

import random

from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDatasetDict, Value
from tests.columns import LABELS, PAIRS
from tests.testing.mutants import instead, mutant_tests

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Data
from plugformer.registry import Kind
from plugformer_testing import Status, check


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


class HashesWithTheProcess(Pairs):
    def version(self):
        return str(hash("some files"))


class ForgetsItsVersion(Pairs):
    number = "none"

    def load(self, columns):
        self.number = "two"
        return super().load(columns)

    def version(self):
        return self.number


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


def loading(name, **columns):
    train = DatasetDict({"train": Dataset.from_dict(columns)})
    return instead(name, Pairs, load=lambda self, columns: train)


MUTANTS = {
    "serves_a_type_of_task": (ServesNothing,),
    "examples_fit_the_task": (
        instead("WithoutTrain", Pairs, splits=("validation",)),
        instead("MisnamedSplit", Pairs, splits=("train", "dev")),
        instead("BlankTarget", Pairs, target=" \t"),
        loading("NumberedLabels", text=["a"], label=[0]),
        loading("WithoutColumns", input=["a"], output=["b"]),
    ),
    "loading_is_repeatable": (
        instead("FindsFault", Pairs, problems=lambda self, columns: [(("files",), "too few")]),
        instead("Shuffles", Pairs, target=property(lambda self: str(random.random()))),  # noqa: S311
    ),
    "a_stream_has_the_same_examples": (StreamsBackwards, StreamsTheRestAnew, StreamsLessSplits),
    "version_is_repeatable": (
        HashesWithTheProcess,
        ForgetsItsVersion,
        instead("NumbersItsVersion", Pairs, version=lambda self: 3),
    ),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.DATA)


def test_sound_data_pass():
    report = check(Pairs)
    assert len(report.of(Status.PASSED)) == len(report.outcomes)
