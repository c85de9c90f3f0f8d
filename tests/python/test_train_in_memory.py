"""Trainings from Python alone: settings as dictionaries, rows in memory, classes of the session."""

from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from tests.training.interrupted import Interrupter

import plugformer
from plugformer.errors import ConfigurationError, DataError, InterruptedRunError, RegistryError, RunError
from plugformer_plugins.attention.grouped import GroupedQueryAttention

ROWS = [{"text": f"{word} number {i}", "label": word} for i in range(20) for word in ("good", "bad")]
TASK = {
    "type": "classification",
    "tokenizer": "words",
    "data": {"split": {"validation": 0.2, "test": 0.2}},
    "model": {
        "architecture": "encoder-only",
        "head": "classifier",
        "attention": "mine",
        "layers": 1,
        "width": 16,
        "heads": 2,
    },
    "training": {"steps": 4},
    "evaluation": {"metrics": ["accuracy"]},
}


def attention():
    """Returns a class like one that a notebook cell defines: no file has its source."""
    names = {"__name__": "__main__", "Base": GroupedQueryAttention}
    exec("class MyAttention(Base):\n    'Mine.'\n", names)  # noqa: S102
    return names["MyAttention"]


def train(folder, rows=ROWS, task=TASK, **options):
    options.setdefault("components", {"attention": {"mine": attention()}})
    return plugformer.train(task, data=rows, out=folder, notify=str, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "run"
    train(folder)
    return folder


def parameters(model):
    return torch.cat([parameter.flatten() for parameter in model.model.state_dict().values()])


@pytest.mark.parametrize(
    "form",
    [
        pd.DataFrame,
        datasets.Dataset.from_list,
        lambda rows: {name: np.array([row[name] for row in rows]) for name in rows[0]},
    ],
    ids=["pandas", "datasets", "arrays"],
)
def test_rows_of_any_form_give_the_same_model(form, run, tmp_path):
    again = train(tmp_path / "run", form(ROWS))
    reference = plugformer.load(run, components={"attention": {"mine": attention()}})
    assert torch.equal(parameters(again), parameters(reference))


def test_splits_are_used_as_they_are_given(tmp_path):
    task = {**TASK, "data": {}, "model": {**TASK["model"], "attention": (attention(), {"kv_heads": 1})}}
    splits = {"train": ROWS[:20], "validation": ROWS[20:30], "test": ROWS[30:]}
    trained = train(tmp_path / "run", splits, task, components=None)
    assert trained.report.examples == 10
    assert trained.model.encoder.layers[0].attention.kv_heads == 1
    assert trained.evaluate(data=ROWS[30:]).metrics == trained.report.metrics


def test_a_run_asks_for_its_classes_and_its_rows(run, tmp_path):
    with pytest.raises(RunError, match="attention/mine of session"):
        plugformer.load(run)
    with pytest.raises(RunError, match="attention/mine of session"):
        plugformer.resume(run, data=ROWS)
    components = {"attention": {"mine": attention()}}
    loaded = plugformer.load(run, components=components)
    assert loaded.predict("good number 3").output in ("good", "bad")
    for use in (lambda: loaded.evaluate("test"), lambda: plugformer.resume(run, components=components)):
        with pytest.raises(
            ConfigurationError, match=r"data 'memory' has no rows(?s:.*)--set data\.name=table"
        ):
            use()
    with pytest.raises(RunError, match=r"(?s)train: .*validation: "):
        plugformer.resume(run, components=components, data=ROWS[:-2])


def test_files_take_the_place_of_rows(run, tmp_path):
    file, components = tmp_path / "rows.tsv", {"attention": {"mine": attention()}}
    pd.DataFrame(ROWS).to_csv(file, sep="\t", index=False)
    loaded = plugformer.load(run, components=components)
    with pytest.raises(ConfigurationError, match=r"--set data\.name=table --set data\.files\.train=FILE"):
        loaded.evaluate(data=file)
    overrides = ["data.name=table", f"data.files.train={file}"]
    other = plugformer.load(run, components=components, overrides=overrides)
    assert other.evaluate().examples == 8
    assert other.evaluate(data=file).metrics == loaded.evaluate(data=ROWS).metrics


def test_an_interruption_names_what_resumes_it(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=rf"`plugformer\.resume\('{folder}', data=\.\.\.\)`"):
        train(folder, callbacks=[Interrupter(2)])


def test_texts_are_given_in_any_form(run):
    model = plugformer.load(run, components={"attention": {"mine": attention()}})
    texts = [row["text"] for row in ROWS]
    outputs = [answer.output for answer in model.predict(texts)]
    for form in (pd.DataFrame({"text": texts}), pd.Series(texts), iter(texts)):
        assert [answer.output for answer in model.predict(form)] == outputs


@pytest.mark.parametrize("texts", ["good", {"text": "good"}, Path("good"), None, 5])
def test_what_is_no_list_of_texts_is_refused(texts, run):
    model = plugformer.load(run, components={"attention": {"mine": attention()}})
    with pytest.raises(DataError, match="expected a list of texts"):
        model.predict_each(texts)


def test_resuming_with_the_same_rows_is_exact(tmp_path):
    components = {"attention": {"mine": attention()}}
    whole = train(tmp_path / "whole", overrides={"training": {"steps": 6, "schedule": "constant"}})
    train(tmp_path / "part", overrides={"training": {"schedule": "constant"}})
    resumed = plugformer.resume(
        tmp_path / "part", data=ROWS, components=components, overrides=["training.steps=6"], notify=str
    )
    assert torch.equal(parameters(resumed), parameters(whole))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": {"width": "wide"}}, ConfigurationError, "overrides  model.width"),
        ({"model": {"attention": "nine"}}, ConfigurationError, r"model.attention.*did you mean 'mine'"),
        ({"model": {"attention": object()}}, ConfigurationError, "overrides  model.attention"),
        ({1.5: 2}, ConfigurationError, "found 1.5"),
    ],
)
def test_mistakes_are_located_in_the_dictionary(change, error, message, tmp_path):
    with pytest.raises(error, match=message):
        train(tmp_path / "run", overrides=change)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"txt": "a", "label": "b"}], "train, row 1: there is no column 'text' .did you mean 'txt'"),
        ([*ROWS, {"text": None, "label": "good"}], "row 41: the text is missing, expected text; fill it in"),
        (
            pd.DataFrame([*ROWS, {"text": "a", "label": float("nan")}]),
            "row 41: the label is missing, expected text; fill it in",
        ),
        (
            pd.DataFrame([["a", "b", "c"]], columns=["text", "label", "text"]),
            "several columns are called 'text'",
        ),
        ({"text": ["a"], "label": []}, "differ in length"),
        ({}, "split 'train' has no examples"),
        (["a"], "a row is 'a', expected a dictionary"),
        ("rows.csv", "found 'rows.csv', expected rows in memory; name files in data.files"),
        (Path("rows.csv"), "found 'rows.csv', .*data.files"),
        (5, "found '5', expected rows"),
        ({"training": ROWS, "validation": ROWS}, "the splits training, validation, and no `train`"),
        ({"training": pd.DataFrame(ROWS)}, "the splits training, and no `train`"),
    ],
)
def test_malformed_rows_are_named(rows, message, tmp_path):
    with pytest.raises(DataError, match=message):
        train(tmp_path / "run", rows)


@pytest.mark.parametrize("named", [{}, {"name": "memory"}])
def test_the_task_has_options_for_its_rows(named, tmp_path):
    data = {**TASK["data"], **named, "columns": {"text": "german"}, "labels": ["good", "bad"]}
    rows = [{"german": row["text"], "label": row["label"]} for row in ROWS]
    trained = train(tmp_path / "run", rows, {**TASK, "data": data})
    assert trained.processor.classes == ["good", "bad"]
    train(tmp_path / "again", rows, tmp_path / "run" / "task.yaml")
    with pytest.raises(ConfigurationError, match=r"data\.labls: unknown"):
        train(tmp_path / "other", rows, {**TASK, "data": {**data, "labls": []}})


def test_rows_replace_the_files_of_a_task(tmp_path):
    data = {**TASK["data"], "name": "table", "files": {"train": "nowhere.tsv"}}
    assert train(tmp_path / "run", task={**TASK, "data": data}).task.data.name == "memory"


def test_a_built_in_name_is_not_replaced(tmp_path):
    with pytest.raises(ConfigurationError, match="session:mha"):
        train(
            tmp_path / "run",
            overrides={"model": {"attention": "mha"}},
            components={"attention": {"mha": attention()}},
        )
    with pytest.raises(RegistryError):
        train(tmp_path / "run", components={"attention": {"mine": 3}})


def test_a_training_on_a_named_device(tmp_path):
    assert train(tmp_path / "run", device="cpu").device == torch.device("cpu")
    with pytest.raises(ConfigurationError, match="no device 'cuda:9'"):
        train(tmp_path / "other", device="cuda:9")
