"""Run directories: what is in them, and those that cannot be used."""

import json
import pickle
import re

import pytest
import torch
import yaml

from plugformer.errors import DataError, LengthError, RunError
from plugformer.hooks import hookimpl
from plugformer.runs.loading import load
from plugformer.runs.store import load_tensors
from plugformer.training.train import resume
from plugformer_inspection.plot import plot
from plugformer_sharing.publishing import publication


def test_what_a_run_leaves_behind(trained):
    assert {path.name for path in trained.directory.iterdir()} == {
        "task.yaml",
        "lock.json",
        "model.safetensors",
        "tokenizer-shared.json",
        "learned.json",
        "metrics.jsonl",
        "evaluation.json",
        "self_check.json",
        "checkpoints",
        ".training.lock",
    }
    checkpoints = sorted(path.name for path in (trained.directory / "checkpoints").iterdir())
    assert checkpoints == ["step-00000008", "step-00000010"]
    assert yaml.safe_load((trained.directory / "task.yaml").read_text())["model"]["width"] == 16


def test_the_final_evaluation(trained):
    reports = json.loads((trained.directory / "evaluation.json").read_text())
    assert reports.keys() == {"test"}
    assert trained.report.split == "test"
    assert trained.report.others == []
    assert reports["test"]["metrics"] == trained.report.metrics
    assert reports["test"]["metrics"]["exact_match"].keys() == {"value", "low", "high"}
    assert reports["test"]["examples"] == 3
    assert trained.report.seconds > 0
    assert "evaluating on test (3 examples)" in trained.notices


def test_a_loaded_run_answers_as_it_did(trained):
    model = load(trained.directory)
    assert not model.model.training
    assert model.predict([]) == []
    texts = ["May 1, 2001", "3/4/1999", ""]
    answers = model.predict(texts)
    assert [model.predict([text])[0].output for text in texts] == [answer.output for answer in answers]
    assert model.evaluate("test").metrics == trained.report.metrics


def test_one_text_gets_one_answer(trained):
    model = load(trained.directory)
    assert model.predict("3/4/1999") == model.predict(["3/4/1999"])[0]
    with pytest.raises(LengthError):
        model.predict("1" * 100)


def test_a_text_too_long_leaves_the_answers_of_the_others(trained):
    """Sampling depends on a text's number in the input, whatever else is there."""
    model = load(trained.directory, overrides=["decoding={name: sampling, max_length: 6}"])
    first, fault, last = model.predict_each(["3/4/1999", "1" * 100, "May 1, 2001 €"])
    whole = model.predict(["3/4/1999", "1", "May 1, 2001 €"])
    assert (first.output, last.output) == (whole[0].output, whole[2].output)
    assert [first.score, last.score] == pytest.approx([whole[0].score, whole[2].score])
    assert isinstance(fault, LengthError)
    assert last.unknown == ("€",)


def test_a_model_is_measured_and_checked_from_another_folder(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained.directory.parent)
    model = load(trained.directory.name)
    monkeypatch.chdir(tmp_path)
    assert model.evaluate().metrics == trained.report.metrics
    assert model.check_itself().passed


class Spoils:
    """Makes the model worse after the first evaluation."""

    @hookimpl
    def step_ended(self, run, update):
        if update.step == 5:
            with torch.no_grad():
                for values in run.model.parameters():
                    values.mul_(10)


def test_the_best_parameters_count_and_not_the_last(train_tiny, tmp_path, recorder):
    out = tmp_path / "run"
    report = train_tiny(out, "training.keep_checkpoints=9", callbacks=[recorder, Spoils()])
    evaluations = recorder.of("evaluation_ended", "evaluation")
    assert [(each.step, each.best) for each in evaluations] == [(4, True), (8, False), (10, False)]
    best = evaluations[0]
    expected = load_tensors(out / f"checkpoints/step-{best.step:08d}/model.safetensors")
    (run,) = recorder.of("run_ended", "run")
    for model in (run.model, load(out).model):
        state = model.state_dict()
        assert all(torch.equal(state[name], value) for name, value in expected.items())
    assert load(out).evaluate("test").metrics == report.metrics


def test_an_unknown_split(trained):
    with pytest.raises(DataError, match=r"unknown split 'tests' \(did you mean 'test'\?\); known: test, "):
        load(trained.directory).evaluate("tests")


def test_an_existing_directory_is_never_overwritten(train_tiny, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="exists already and is never overwritten: give another --out"):
        train_tiny(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_where_no_run_can_be_written_is_said_before_data_are_read(train_tiny, tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    with pytest.raises(RunError, match=r"cannot be made: .*; give another --out"):
        train_tiny(tmp_path / "file" / "run", notify=said.append)
    assert said == []


def test_what_is_no_run(run_copy, tmp_path):
    with pytest.raises(RunError, match=r"no run directory .*cpoy \(did you mean 'copy'\?\)"):
        load(run_copy.with_name("cpoy"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"is not a run directory: it has no task\.yaml"):
        load(tmp_path / "empty")


NEWER = b'{"versions": {"plugformer": "99.1"}, "components": {}, "data": {}}'


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("lock.json", None, r"lock\.json is missing: the run directory is damaged"),
        ("lock.json", b"{", r"lock\.json is damaged"),
        ("lock.json", b"{}", r"lock\.json is damaged: .*'versions'"),
        ("lock.json", b"[]", r"lock\.json is damaged: TypeError"),
        ("lock.json", b"[" * 100_000, r"lock\.json is damaged: maximum recursion depth"),
        ("lock.json", NEWER.replace(b"99.1", b"abc"), r"lock\.json is damaged: .*'abc'"),
        ("lock.json", NEWER, r"written by Plugformer 99\.1, newer than this .*: install 99\.1 or newer"),
        ("tokenizer-shared.json", pickle.dumps(1), r"tokenizer-shared\.json is damaged"),
        ("learned.json", None, r"learned\.json is missing"),
    ],
)
def test_damaged_runs(run_copy, file, content, message):
    (run_copy / file).unlink()
    if content is not None:
        (run_copy / file).write_bytes(content)
    with pytest.raises(RunError, match=message):
        load(run_copy)


def push(run):
    publication(load(run), "hub:me/dates")


def draw(run):
    plot(load(run), run / "plots", "1 2", str)


@pytest.mark.parametrize("act", [push, resume, draw])
def test_a_damaged_log(run_copy, act):
    (run_copy / "metrics.jsonl").write_bytes(b"{]\n")
    with pytest.raises(
        RunError, match=rf"{re.escape(str(run_copy))}/metrics.jsonl is damaged: .*; restore it"
    ):
        act(run_copy)
