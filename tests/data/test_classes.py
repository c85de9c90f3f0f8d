"""Classes that are doubtful are named before a training."""

from pathlib import Path

import pytest

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment


def notices(registry, folder: Path, labels: list[str]):
    """Returns what is said about training examples with these labels, some of them for validation, too."""
    content = "".join(f"{number} words\t{label}\n" for number, label in enumerate(labels * 2))
    (folder / "train.tsv").write_text(f"text\tlabel\n{content}", encoding="utf-8")
    (folder / "validation.tsv").write_text(f"text\tlabel\nother words\t{labels[0]}\n", encoding="utf-8")
    task = folder / "task.yaml"
    task.write_text(
        "type: classification\n"
        f"data: {{name: table, files: {{train: {folder}/train.tsv, validation: {folder}/validation.tsv}}}}\n"
        "tokenizer: whitespace\nmodel: {architecture: encoder-only, head: classifier}\n"
    )
    return prepare(Experiment.of(resolve(str(task), [], registry).task, registry)).notices


def test_one_class_is_no_choice(registry, tmp_path):
    (notice,) = notices(registry, tmp_path, ["good", "good"])
    assert "'good'" in notice


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        ([f"{number / 37:.4f}" for number in range(96)], "192 training examples have 96 different labels"),
        ([f"intent {number % 77}" for number in range(350)], ""),
    ],
)
def test_numbers_are_hardly_classes(registry, tmp_path, labels, warned):
    found = notices(registry, tmp_path, labels)
    assert len(found) == bool(warned)
    assert all(warned in notice for notice in found)


def test_nothing_is_said_of_usual_classes(registry, tmp_path):
    assert notices(registry, tmp_path, ["good", "bad"]) == ()
