"""Baselines beside the model's scores: learned from the same examples, measured alike, and no part of it."""

import json
import re

import numpy as np
import pytest
import torch
from tests.python.test_train_in_memory import ROWS, TASK, parameters

import plugformer
from plugformer.errors import ConfigurationError
from plugformer.interfaces import OutputBaseline, Prediction
from plugformer.reproducibility import generator_states
from plugformer_cli.printing import print_baselines, print_report
from plugformer_sharing import model_card

UNTRAINED = {**TASK, "model": {**TASK["model"], "attention": "mha"}, "training": {"steps": 1}}
UNTRAINED["training"] |= {"optimizer": {"name": "adamw", "lr": 1e-12}}


class Failing(OutputBaseline):
    """Draws a number, and fails."""

    accepts = frozenset({"label"})

    def fit(self, questions, outputs):
        np.random.seed(3)
        torch.manual_seed(3)
        raise ValueError("it cannot count")

    def answer(self, questions, candidates, n_best):
        raise NotImplementedError


class First(OutputBaseline):
    """Repeats the label of the first example."""

    accepts = frozenset({"label"})
    limit = 10

    def fit(self, questions, outputs):
        self.seen, self.output = [*questions], outputs[0]

    def answer(self, questions, candidates, n_best):
        assert all(question.keys() == {"text"} for question in (*self.seen, *questions))
        return [Prediction(self.output)] * len(questions)


def train(folder, said=None, baselines=None, **options):
    evaluation = {"metrics": ["perplexity", "accuracy", "confusion_matrix"], "baselines": baselines}
    options.setdefault("components", {"baseline": {"failing": Failing, "first": First}})
    notify = str if said is None else said.append
    return plugformer.train(
        {**UNTRAINED, "evaluation": evaluation}, data=ROWS, out=folder, notify=notify, **options
    )


def test_a_model_that_does_not_beat_them_says_so(tmp_path, capsys):
    trained = train(tmp_path / "run")
    report = trained.report
    assert list(report.baselines) == ["majority", "bag_of_words"]
    words = report.baselines["bag_of_words"]
    assert words.metrics.keys() == {"accuracy", "confusion_matrix"}  # it has no probabilities
    assert (words.metrics["accuracy"]["value"], words.unbeaten) == (1.0, "accuracy")
    assert (words.examples, words.available) == (24, 24)
    assert "table" not in words.metrics["confusion_matrix"]
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert stored["test"]["baselines"]["bag_of_words"]["metrics"]["accuracy"]["value"] == 1.0
    assert report.as_json()["baselines"]["bag_of_words"]["unbeaten"] == "accuracy"
    assert "baseline `bag_of_words`, which the model does not beat | 1 |" in model_card(trained)
    print_report(report, as_json=False)
    print_baselines(report)
    printed = capsys.readouterr().out
    assert re.search(r"^test +accuracy, baseline bag_of_words +1\.0000 ", printed, re.MULTILINE)
    assert re.search(
        r"^.* NOT BEAT bag_of_words: accuracy 0\.\d{4} on test, .* 1\.0000$", printed, re.MULTILINE
    )
    assert "training examples" not in printed  # it has learned from all


def test_a_task_names_others_and_one_that_fails_is_left_out(tmp_path, capsys):
    said = []
    trained = train(tmp_path / "with", said, ["failing", "first"])
    assert trained.report.baselines.keys() == {"first"}
    first = trained.report.baselines["first"]
    assert (first.examples, first.available) == (10, 24)
    print_baselines(trained.report)
    assert "first has learned from 10 of 24 training examples" in capsys.readouterr().out
    assert any("'failing'" in line and "it cannot count" in line for line in said)
    after = generator_states()
    without = train(tmp_path / "without", baselines=[])
    assert torch.equal(after["numpy"][1], generator_states()["numpy"][1])
    assert torch.equal(after["cpu"], generator_states()["cpu"])
    assert without.report.baselines == {}
    checks = [json.loads((run.directory / "self_check.json").read_text()) for run in (trained, without)]
    assert checks[0] == checks[1]
    assert torch.equal(parameters(trained), parameters(without))


def test_one_that_cannot_learn_the_task_is_refused_at_its_place(tmp_path):
    with pytest.raises(ConfigurationError) as error:
        train(tmp_path / "run", baselines=["first", "mean"])
    assert "evaluation.baselines.1" in str(error.value)
    assert "'mean'" in str(error.value)
    assert "'bag_of_words'" in str(error.value)


def test_the_first_examples_of_a_stream_are_learned(tmp_path):
    for name, rows in (("train", ROWS), ("validation", ROWS[:6])):
        lines = "".join(f"{row['text']}\t{row['label']}\n" for row in rows)
        (tmp_path / f"{name}.tsv").write_text(lines)
    files = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "validation")}
    table = {"name": "table", "files": files, "header": False, "columns": {"text": 1, "label": 2}}
    table |= {"streaming": {"buffer": 30}, "labels": ["bad", "good"]}
    report = plugformer.train({**UNTRAINED, "data": table}, out=tmp_path / "run", notify=str).report
    words = report.baselines["bag_of_words"]
    assert (report.split, words.examples, words.available) == ("validation", 30, None)
    assert words.metrics["accuracy"]["value"] == 1.0
