"""Classes that are doubtful are named before a training."""

from pathlib import Path

import pytest

from plugformer.configuration import resolve
from plugformer.data.classes import look_alikes
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment


def notices(registry, folder: Path, labels: str, *overrides: str, kind: str = "classification"):
    """Returns what is said about training examples with these labels, some of them for validation, too."""
    rows = labels.split(",")
    column = {"classification": "label", "multi-label": "labels", "tagging": "tags"}[kind]
    text = "words" if kind == "tagging" else "text"
    content = "".join(f"{number} words\t{label}\n" for number, label in enumerate(rows * 2))
    (folder / "train.tsv").write_text(f"{text}\t{column}\n{content}", encoding="utf-8")
    (folder / "validation.tsv").write_text(f"{text}\t{column}\nother words\t{rows[0]}\n", encoding="utf-8")
    task = folder / "task.yaml"
    task.write_text(
        f"type: {kind}\n"
        f"data: {{name: table, files: {{train: {folder}/train.tsv, validation: {folder}/validation.tsv}}}}\n"
        "tokenizer: whitespace\nmodel: {architecture: encoder-only, head: "
        f"{'token_classifier' if kind == 'tagging' else 'classifier'}}}\n"
    )
    return prepare(Experiment.of(resolve(str(task), list(overrides), registry).task, registry)).notices


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\uff21", "A"),  # full width
        ("BAD", "bad"),
        ("so bad", "so  bad"),
        ("bad", "bad\xa0"),
    ],
)
def test_names_that_hardly_differ(one, other):
    (notice,) = look_alikes([one, "third", other])
    assert f"{one!a} and {other!a}" in notice


def test_names_that_differ():
    assert look_alikes(["good", "bad", "1", "2", "1.5", "O", "0", "nan", "inf", "B-PER", "I-PER"]) == []


def test_of_many_pairs_a_few_are_shown():
    found = look_alikes([name for number in range(9) for name in (f"a{number}", f"A{number}")])
    assert len(found) == 4
    assert "6 other pairs" in found[-1]


@pytest.mark.parametrize(
    ("kind", "labels"), [("classification", "bad,BAD"), ("multi-label", "bad,BAD"), ("tagging", "N V,N v")]
)
def test_they_are_named_before_a_training(registry, tmp_path, kind, labels):
    (notice,) = notices(registry, tmp_path, labels, kind=kind)
    assert "look the same" in notice


def test_one_class_is_no_choice(registry, tmp_path):
    (notice,) = notices(registry, tmp_path, "good,good")
    assert "'good'" in notice


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        ([f"{number / 37:.4f}" for number in range(96)], "192 training examples have 96 different labels"),
        ([f"intent {number % 77}" for number in range(350)], ""),
    ],
)
def test_numbers_are_hardly_classes(registry, tmp_path, labels, warned):
    found = [
        notice for notice in notices(registry, tmp_path, ",".join(labels)) if "different labels" in notice
    ]
    assert len(found) == bool(warned)
    assert all(warned in notice for notice in found)


def test_a_class_that_is_a_missing_value(registry, tmp_path):
    (notice,) = notices(registry, tmp_path, "good,NaN")
    assert "'NaN'" in notice


def test_a_declared_class_without_examples(registry, tmp_path):
    (notice,) = notices(registry, tmp_path, "good,bad", "data.labels=[good, bad, ugly]")
    assert "'ugly'" in notice


def test_nothing_is_said_of_usual_classes(registry, tmp_path):
    assert notices(registry, tmp_path, "good,bad") == ()
