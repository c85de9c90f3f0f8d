"""Every check of data catches a fault that it is there for."""

import random

from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from tests.columns import LABELS, PAIRS
from tests.testing.mutants import fault_test, instead

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Data
from plugformer.registry import Kind


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


class StreamsTheRestAnew(Pairs):
    def stream(self, columns):
        splits = super().stream(columns)
        for split in splits.values():
            split.load_state_dict = lambda state: None
        return splits


MUTANTS = {
    "serves_a_type_of_task": ServesNothing,
    "examples_fit_the_task": instead("BlankTarget", Pairs, target=" \t"),
    "loading_is_repeatable": instead(
        "Shuffles",
        Pairs,
        target=property(lambda self: str(random.random())),  # noqa: S311
    ),
    "a_stream_has_the_same_examples": StreamsTheRestAnew,
    "version_is_repeatable": HashesWithTheProcess,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.DATA)
