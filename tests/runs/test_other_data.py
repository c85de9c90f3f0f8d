"""A run is measured on files that its task does not name, and says where its own have gone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from plugformer.configuration import resolve
from plugformer.data.preparation import read_files
from plugformer.data.processor import Processor
from plugformer.errors import ConfigurationError, DataError
from plugformer.experiment import Experiment
from plugformer.runs.loading import load
from plugformer.training.train import train
from plugformer_cli.main import main
from plugformer_plugins.task_type.language_modelling import LanguageModelling
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_plugins.tokenizer.word_level import Characters

TASK = """
type: classification
data: {name: table, files: {train: train.tsv, validation: train.tsv, test: train.tsv}}
tokenizer: characters
model: {architecture: encoder-only, width: 16, heads: 2, layers: 1, ffn_width: 16, head: classifier}
training: {steps: 1, batch_size: 4}
evaluation: {metrics: [accuracy]}
"""
ROWS = ["text\tlabel", "dogs bark\tanimal", "cars roll\tthing", "cats purr\tanimal", "a pen\ttool"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, registry):
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "task.yaml").write_text(TASK)
    (folder / "train.tsv").write_text("\n".join(ROWS))
    train(str(folder / "task.yaml"), out=folder / "run", registry=registry, notify=str)
    return folder / "run"


@pytest.fixture
def write(tmp_path):
    def write(name, *rows):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
        return tmp_path / name

    return write


def test_a_file_is_measured_and_named_and_the_run_stays_as_it_is(classifier, write, capsys):
    """Only one of the classes occurs in it: it keeps the number that the model knows it by."""
    new, before = write("new.tsv", "text\tlabel", "a car\tthing", "a bus\tthing"), sorted_files(classifier)
    model = load(classifier)
    answers = [answer.output for answer in model.predict(["a car", "a bus"])]
    report = model.evaluate(data=new)
    assert (report.split, report.examples) == (str(new), 2)
    assert report.metrics["accuracy"]["value"] == answers.count("thing") / 2
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(classifier), "--data", str(new), "--json"])
    printed = capsys.readouterr()
    assert left.value.code in (0, None)
    assert json.loads(printed.out)["metrics"] == report.metrics
    assert f"{new}: 2 examples" in printed.err
    assert sorted_files(classifier) == before


@pytest.mark.parametrize("split", ["test", "nosuch"])
def test_other_data_have_no_splits(classifier, split):
    with pytest.raises(ConfigurationError, match="split and data exclude each other"):
        load(classifier).evaluate(split, data=[{"text": "a car", "label": "thing"}])


def test_numbers_of_classes_in_a_new_file_are_not_guessed(write, registry, tmp_path):
    """Training counted from 0, which does not occur in the new file: read from 1, all classes would shift."""
    rows = [row.replace("animal", "0").replace("thing", "1").replace("tool", "2") for row in ROWS]
    write("train.tsv", *rows)
    new = write("new.tsv", "text\tlabel", "a car\t1", "a bus\t1")
    task = TASK.replace("test: train.tsv}", "test: train.tsv}, labels: [a, b, c]")
    run = tmp_path / "run"
    train(str(write("task.yaml", task)), out=run, registry=registry, notify=str)
    with pytest.raises(DataError, match=r"labels are numbers, .* neither 0 nor 3 occurs"):
        load(run).evaluate(data=new)
    model = load(run, overrides=["data.zero_based=true"])
    answers = [answer.output for answer in model.predict(["a car", "a bus"])]
    assert model.evaluate(data=new).metrics["accuracy"]["value"] == answers.count("b") / 2


def sorted_files(run: Path) -> list[tuple[str, bytes]]:
    return sorted((str(path), path.read_bytes()) for path in run.rglob("*") if path.is_file())


def test_a_class_that_the_model_does_not_know_is_refused(classifier, write):
    new = write("new.tsv", "text\tlabel", "the sky\tthings")
    with pytest.raises(DataError, match=r"unknown label 'things' \(did you mean 'thing'\?\)"):
        load(classifier).evaluate(data=new)


def test_a_moved_run_says_which_file_is_missing_and_what_can_be_done(classifier, tmp_path, write):
    moved = Path(shutil.copytree(classifier, tmp_path / "moved"))
    task = moved / "task.yaml"
    task.write_text(task.read_text().replace(f"{classifier.parent}/", "/elsewhere/"))
    with pytest.raises(DataError, match=r"^/elsewhere/train\.tsv: no such file.*\n.*--data FILE"):
        load(moved).evaluate()
    here = write("train.tsv", *ROWS)
    changed, notices = [f"data.files={{train: {here}, validation: {here}, test: {here}}}"], []
    report = load(moved, overrides=changed).evaluate(notify=notices.append)
    assert report.metrics == load(classifier).evaluate().metrics
    assert not [notice for notice in notices if "not those of the training" in notice]
    assert load(moved).evaluate(data=here).metrics == load(classifier).evaluate().metrics


def test_parallel_files_are_two(registry, write, tmp_path):
    write(
        "task.yaml",
        "type: sequence-to-sequence",
        "data: {name: lines, files: {train: {source: a, target: b}}}",
        "tokenizer: characters",
        "model: {architecture: encoder-decoder, head: language_model}",
    )
    experiment = Experiment.from_resolved(resolve(str(tmp_path / "task.yaml"), [], registry))
    tokenizer = Characters()
    tokenizer.train(["abc"])
    known = Processor(tokenizer, tokenizer, SequenceToSequence())
    files = [write("new.a", "a b", "b"), write("new.b", "c", "cc")]
    split, count, _ = read_files(files, experiment, known)
    assert [(split.input(row), split.references(row)) for row in range(2)] == [("a b", ["c"]), ("b", ["cc"])]
    assert count.rows == 2
    with pytest.raises(ConfigurationError, match=r"cannot read 1 file as a split: .*new\.a; parallel files"):
        read_files(files[:1], experiment, known)


def test_nothing_is_cut_off_the_ends_of_other_files(registry, write, tmp_path):
    write(
        "task.yaml",
        "type: language-modelling",
        "data: {name: text, files: {train: a}, examples: line, ends: {validation: 0.2, test: 0.2}}",
        "tokenizer: characters",
        "model: {architecture: decoder-only, head: language_model}",
    )
    experiment = Experiment.from_resolved(resolve(str(tmp_path / "task.yaml"), [], registry))
    tokenizer = Characters()
    tokenizer.train(["abc"])
    known = Processor(tokenizer, tokenizer, LanguageModelling())
    split, count, _ = read_files([write("new.txt", *["abc"] * 10)], experiment, known)
    assert count.rows == 10
    assert split.units("characters", np.array([40])).sum() == 30  # with the end of each line


def test_data_that_read_no_files_say_what_can_be_changed(trained, write):
    model = load(trained.directory)
    with pytest.raises(ConfigurationError, match=r"data 'dates' has no option 'files'.*--set data\.OPTION"):
        model.evaluate(data=write("new.tsv", "a\tb"))
    with pytest.raises(ConfigurationError, match=r"data\.siez: unknown"):
        load(trained.directory, overrides=["data.siez=3"])


@pytest.fixture
def edited(write, registry, tmp_path):
    """A run that divided its examples at random, and that its file has changed since."""
    task = TASK.replace("validation: train.tsv, test: train.tsv}", "validation: train.tsv}, split: {test: 3}")
    rows = [ROWS[0], *(f"{number} {row}" for number, row in enumerate(ROWS[1:] * 3))]
    write("train.tsv", *rows)
    train(str(write("task.yaml", task)), out=tmp_path / "run", registry=registry, notify=str)
    write("train.tsv", rows[0], *reversed(rows[1:]))
    return tmp_path / "run"


def test_data_that_have_changed_are_not_measured_as_those_of_the_training(edited, capsys):
    """Other rows are drawn for the test, of which training has seen some."""
    with pytest.raises(DataError, match=r"split 'test' are not those of the training.*\n.*--data FILE"):
        load(edited).evaluate()
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(edited)])
    assert left.value.code == 2
    assert "split 'test'" in capsys.readouterr().err


def test_other_data_are_measured_if_somebody_names_them(edited):
    here, notices = edited.parent / "train.tsv", []
    named = load(edited, overrides=[f"data.files.train={here}"])
    assert named.evaluate(notify=notices.append).examples == 3
    assert [notice for notice in notices if "not those of the training" in notice]
    assert load(edited).evaluate(data=here).examples == 12
