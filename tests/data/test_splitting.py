"""Taking validation and test examples out of the training examples."""

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from plugformer.configuration.task import Split
from plugformer.data.splitting import split
from plugformer.errors import ConfigurationError, DataError
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence

PAIRS = SequenceToSequence()


def examples(count: int = 100, sources: int = 1000) -> DatasetDict:
    rows = {
        "source": [f"s{number % sources}" for number in range(count)],
        "target": [f"t{number}" for number in range(count)],
    }
    return DatasetDict({"train": Dataset.from_dict(rows)})


def test_by_order_takes_the_last_rows() -> None:
    splits = split(examples(), Split(validation=0.1, test=0.2, by="order"), PAIRS)
    assert splits["test"]["target"][:] == [f"t{number}" for number in range(80, 100)]
    assert splits["validation"]["target"][:] == [f"t{number}" for number in range(70, 80)]
    assert splits["train"]["target"][:] == [f"t{number}" for number in range(70)]


def test_at_random_every_row_is_on_one_side_and_the_seed_decides() -> None:
    settings = Split(validation=0.1, test=0.2)
    splits = split(examples(), settings, PAIRS)
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [70, 10, 20]
    rows = [target for part in splits.values() for target in part["target"]]
    assert sorted(rows) == sorted(examples()["train"]["target"])
    assert splits["test"]["target"][:] == split(examples(), settings, PAIRS)["test"]["target"][:]
    other = split(examples(), Split(validation=0.1, test=0.2, seed=2), PAIRS)
    assert splits["test"]["target"][:] != other["test"]["target"][:]
    assert splits["test"]["target"][:] != [f"t{number}" for number in range(80, 100)]


def test_a_number_takes_so_many() -> None:
    splits = split(examples(), Split(validation=1, test=25), PAIRS)
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [74, 1, 25]
    groups = split(examples(100, sources=25), Split(validation=3, by="group"), PAIRS)
    assert [len(groups[name]) for name in ("train", "validation")] == [88, 3]


def test_by_group_sources_stay_together_and_their_targets_become_references() -> None:
    splits = split(examples(100, sources=25), Split(validation=0.2, test=0.2, by="group"), PAIRS)
    parts = [set(part["source"]) for part in splits.values()]
    assert sum(len(part) for part in parts) == len(set.union(*parts)) == 25
    assert len(splits["test"]) == len(splits["validation"]) == 5
    for example in splits["test"]:
        number = int(example["source"][1:])
        assert example["references"] == [f"t{row}" for row in range(number, 100, 25)]
        assert example["target"] == example["references"][0]
    assert len(splits["train"]) == 4 * 15
    assert "references" not in splits["train"].column_names


def test_by_group_references_of_the_data_stay_right_answers() -> None:
    rows = {
        "source": ["a", "a", "b", "b", "c"],
        "target": ["1", "2", "3", "4", "5"],
        "references": [["1", "one"], None, ["three"], ["one", "three"], []],
    }
    data = DatasetDict({"train": Dataset.from_dict(rows)})
    splits = split(data, Split(validation=1, test=1, by="group", seed=1), PAIRS)
    held_out = {row["source"]: row for name in ("validation", "test") for row in splits[name]}
    assert {source: (row["target"], row["references"]) for source, row in held_out.items()} == {
        "a": ("1", ["1", "one", "2"]),
        "b": ("3", ["three", "one"]),
    }


def test_groups_of_classified_texts_keep_their_labels() -> None:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["a", "b"])})
    rows = {"text": ["x", "y", "z", "w"] * 5, "label": [0, 1, 1, 0] * 5}
    data = DatasetDict({"train": Dataset.from_dict(rows, features=features)})
    splits = split(data, Split(validation=0.25, by="group"), Classification())
    assert len(splits["validation"]) == 5
    assert not set(splits["validation"]["text"]) & set(splits["train"]["text"])
    assert splits["validation"].features == features


@pytest.mark.parametrize(
    ("data", "settings", "error", "message"),
    [
        (DatasetDict(), None, DataError, "no split 'train'"),
        (examples(), None, DataError, r"no split 'validation'.*data\.split: \{validation: 0\.05\}"),
        (examples(), Split(test=0.1), DataError, "no split 'validation'"),
        (examples(3), Split(validation=0.1), DataError, r"data\.split\.validation: 0\.1 of 3 .* is 0"),
        (examples(10), Split(validation=0.5, test=0.5), DataError, r"data\.split\.validation"),
        (
            DatasetDict({**examples(), "validation": examples(5)["train"]}),
            Split(validation=0.1),
            ConfigurationError,
            "'validation' of their own",
        ),
    ],
)
def test_what_cannot_be_split(
    data: DatasetDict, settings: Split | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        split(data, settings, PAIRS)
