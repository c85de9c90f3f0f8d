"""`plugformer train` and `evaluate`: what they hand over, and how they print what comes back."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from plugformer.evaluation.report import ConsistencyCheck, Report, SelfCheck
from plugformer_cli.printing import print_next_steps, print_report
from plugformer_plugins.task_type.pairs import Retrieval
from plugformer_plugins.task_type.regression import Regression
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence

FURTHER = Report(Path("runs/a"), "test_2", {"exact_match": {"value": 0.5, "low": 0.4, "high": 0.6}}, 10, 1.0)
REPORT = Report(
    Path("runs/a b"),
    "test",
    {"exact_match": {"value": 0.75, "low": 0.7, "high": 0.8}},
    20,
    2.0,
    others=[FURTHER],
)

TRANSLATION = SequenceToSequence()
MESSAGE = f"[a message] that a log keeps on one line, however long: {'word ' * 30}end"


def trained(report=REPORT, task_type=TRANSLATION, arguments=""):
    """Returns what a training returns, as far as the command uses it."""
    return SimpleNamespace(
        report=report,
        directory=report.run,
        registry=SimpleNamespace(arguments=arguments),
        experiment=SimpleNamespace(task_type=task_type),
    )


@pytest.fixture
def calls(monkeypatch):
    """Replaces training by a note of how it was called."""
    calls = []

    def note(name):
        def call(first, **arguments):
            arguments["notify"](MESSAGE)
            assert [type(each).__name__ for each in arguments.pop("callbacks")] == ["ProgressDisplay"]
            allowed = [True] if arguments.get("allow_changes") else []
            calls.append((name, first, arguments["overrides"], arguments.get("out"), *allowed))
            calls.extend(filter(None, [arguments["device"]]))
            return trained()

        return call

    monkeypatch.setattr("plugformer.train", note("train"))
    monkeypatch.setattr("plugformer.resume", note("resume"))
    return calls


def test_train_hands_over_task_settings_and_directory(run, calls):
    run(
        "train",
        "dates",
        "--set",
        "model.width=8",
        "--set",
        "training.steps=1",
        "--out",
        "here",
        "--device",
        "cpu",
    )
    assert calls == [("train", "dates", ["model.width=8", "training.steps=1"], Path("here")), "cpu"]


@pytest.mark.parametrize("arguments", [["--out", "here"], ["here"]])
def test_resume_takes_the_run_either_way(run, calls, arguments):
    run("train", "--resume", *arguments)
    assert calls == [("resume", Path("here"), [], None)]


def test_metrics_go_to_standard_output_and_messages_to_standard_error(run, calls):
    outcome = run("train", "dates")
    assert outcome.status == 0
    assert outcome.err == f"{MESSAGE}\n"
    assert outcome.out.splitlines() == [
        "split   metric        value  95 % interval",
        "test    exact_match  0.7500  0.7000 to 0.8000",
        "test_2  exact_match  0.5000  0.4000 to 0.6000",
        "",
        "run   'runs/a b'",
        "next  plugformer predict 'runs/a b' \"some text\"",
        "      plugformer evaluate 'runs/a b' --split validation",
    ]


@pytest.mark.parametrize(
    ("task_type", "asked"),
    [
        (Regression(inputs=["one", "other"]), r"$'some text\tsome text'"),
        (Retrieval(), '--vectors "some text"'),
    ],
)
def test_the_next_command_is_one_that_answers(task_type, asked, capsys):
    print_next_steps(trained(task_type=task_type, arguments=" --registry r.yaml"))
    assert f"plugformer predict 'runs/a b' {asked} --registry r.yaml\n" in capsys.readouterr().out


TABLE = {
    "title": "right in rows",
    "columns": ["Sports", "Science and technology"],
    "rows": {"Sports": [5, 1], "Science and technology": [0, 14]},
}
MANY = {
    "bleu": {"value": 37.25, "low": 36.5, "high": 38.0, "signature": "nrefs:1|case:mixed|version:2.6.0"},
    "confusion_matrix": {"value": 0.95, "low": 0.7639, "high": 0.9911, "table": TABLE},
    "macro_f1": {"value": 1.0, "low": 1.0, "high": 1.0},
}


def test_signatures_and_tables_stand_below_the_scores(capsys):
    further = Report(Path("runs/a"), "test_2", {"bleu": MANY["bleu"]}, 20, 1.0)
    print_report(Report(Path("runs/a"), "test", MANY, 20, 2.0, [further]), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "split   metric             value  95 % interval",
        "test    bleu               37.25  36.50 to 38.00",
        "test    confusion_matrix  0.9500  0.7639 to 0.9911",
        "test    macro_f1          1.0000  unknown: all resamples score the same",
        "test_2  bleu               37.25  36.50 to 38.00",
        "",
        "bleu  nrefs:1|case:mixed|version:2.6.0",
        "",
        "confusion_matrix on test: right in rows",
        "                        Sports  Science and technology",
        "Sports                       5                       1",
        "Science and technology       0                      14",
    ]


def test_changes_are_allowed_to_a_resumed_run_only(run, calls):
    run("train", "--resume", "here", "--allow-changes")
    assert calls == [("resume", Path("here"), [], None, True)]
    outcome = run("train", "dates", "--allow-changes")
    assert outcome.status == 2
    assert outcome.err.startswith("Error: --allow-changes is an option of --resume")


AGREES = ConsistencyCheck("cached = uncached", 2e-6, "May 1", "an attention")
DIFFERS = ConsistencyCheck("batch = single", 0.5, "May \x1b[2J2", "padding that is read")
RAISES = ConsistencyCheck("saved = loaded", float("nan"), "", "what is not saved", "RunError: it is gone")


def test_a_model_that_is_not_sound_is_shown_with_the_likely_cause(run, calls, monkeypatch):
    checked = replace(REPORT, self_check=SelfCheck([AGREES, DIFFERS, RAISES], 8))
    monkeypatch.setattr("plugformer.train", lambda task, **_: trained(checked))
    outcome = run("train", "dates")
    assert outcome.status == 0
    first = outcome.out.splitlines().index(
        "SELF-CHECK FAILED: the model's answers depend on how they are computed"
    )
    assert outcome.out.splitlines()[first + 1 : first + 6] == [
        "  batch = single: log-probabilities differ by 0.5, more than 0.001",
        "    input   May \\x1b[2J2",
        "    likely  padding that is read",
        "  saved = loaded: RunError: it is gone",
        "    likely  what is not saved",
    ]


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_what_components_print_is_no_result(run, monkeypatch, command):
    def noisy(*_, **__):
        print("noise of a component")  # noqa: T201 (as a component may)
        return REPORT

    monkeypatch.setattr("plugformer.train", lambda *_, **__: trained(noisy()))
    model = SimpleNamespace(evaluate=noisy, device=torch.device("cpu"))
    monkeypatch.setattr("plugformer.load", lambda *_, **__: model)
    outcome = run(command, "dates", "--json")
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["split"] == "test"
    assert "noise of a component" in outcome.err


def test_evaluate_measures_the_split_or_the_files_that_are_given(run, monkeypatch):
    class Model:
        device = torch.device("cpu")

        def evaluate(self, split, *, data, notify):
            notify("read")
            return Report(Path("runs/a"), ", ".join(map(str, data or [split or "test"])), {}, 1, 1.0)

    monkeypatch.setattr("plugformer.load", lambda path, registry, **_: Model())
    assert json.loads(run("evaluate", "runs/a", "--json").out)["split"] == "test"
    outcome = run("evaluate", "runs/a", "--split", "train", "--json")
    assert (json.loads(outcome.out)["split"], outcome.err) == ("train", "read\n")
    files = ["--data", "new.en", "--data", "new.fr"]
    assert json.loads(run("evaluate", "runs/a", *files, "--json").out)["split"] == "new.en, new.fr"
    assert "--split and --data exclude" in run("evaluate", "runs/a", *files, "--split", "test").err
