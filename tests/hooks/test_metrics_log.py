"""metrics.jsonl: what is in it, and that it comes back as it was after a resumption."""

import json

import pytest

from plugformer.configuration.task import TrainingSettings
from plugformer.hooks import EvaluationResult, Run, Update
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.runs.directory import RunDirectory
from plugformer.training.metrics_log import MetricsLog


def lines(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_lines_of_a_run(trained):
    found = lines(trained.directory)
    assert [(line["event"], line["step"]) for line in found] == [
        *(("training", step) for step in (1, 2, 3, 4)),
        ("validation", 4),
        *(("training", step) for step in (5, 6, 7, 8)),
        ("validation", 8),
        *(("training", step) for step in (9, 10)),
        ("validation", 10),
    ]
    rate = trained.recorder.of("run_started", "run")[0].task.training.optimizer.options["lr"]
    updates = trained.recorder.of("step_ended", "update")
    logged = [line for line in found if line["event"] == "training"]
    for update, line in zip(updates, logged, strict=True):
        assert line["loss"] == pytest.approx(update.loss)
        assert line["learning_rate"] == update.learning_rate == rate
        assert line["token_accuracy"] == update.token_accuracy
        assert 0 <= line["token_accuracy"] <= 1
        assert line["epoch"] == update.epoch
        assert line["tokens_per_second"] == pytest.approx(update.tokens / update.seconds, abs=0.1)
    evaluations = trained.recorder.of("evaluation_ended", "evaluation")
    for evaluation, line in zip(evaluations, (line for line in found if "best" in line), strict=True):
        assert line["loss"] == evaluation.loss
        assert line["token_accuracy"] == evaluation.token_accuracy
        assert line["exact_match"] == evaluation.metrics["exact_match"]
        assert line["best"] == evaluation.best


def test_a_line_averages_over_the_updates_since_the_last(tiny_task, tiny_model, tmp_path):
    task = tiny_task().model_copy(update={"training": TrainingSettings(log_every=2)})
    run = Run(tmp_path, task, tiny_model(), steps=3, epoch_steps=3)
    log = MetricsLog(TrainingProgress())
    for step, loss, targets, tokens, seconds in [
        (1, 3.0, 10, 40, 1.0),
        (2, 6.0, 20, 60, 3.0),
        (3, 1.0, 5, 9, 1.0),
    ]:
        log.step_ended(run, Update(step, 1, loss, targets, tokens, None, 0.1, seconds))
    first, last = lines(tmp_path)
    assert (first["step"], first["loss"], first["tokens_per_second"]) == (2, 5.0, 25.0)
    assert (last["step"], last["loss"], last["tokens_per_second"]) == (3, 1.0, 9.0)


def test_updates_before_an_early_end_are_logged_before_its_evaluation(tiny_task, tiny_model, tmp_path):
    task = tiny_task().model_copy(update={"training": TrainingSettings(log_every=50)})
    run = Run(tmp_path, task, tiny_model(), steps=100, epoch_steps=100)
    log = MetricsLog(TrainingProgress())
    for step in (1, 2):
        log.step_ended(run, Update(step, 1, float(step), 10, 40, None, 0.1, 2.0))
        log.evaluation_ended(
            run, EvaluationResult(step, 0.5, 0.0, {}, [], best=False, seconds=1.0, final=step == 2)
        )
    events = [(line["event"], line["step"], line["loss"]) for line in lines(tmp_path)]
    assert events == [("validation", 1, 0.5), ("training", 2, 1.5), ("validation", 2, 0.5)]


def test_rewinding_drops_what_is_made_again_and_half_a_line(tmp_path):
    directory = RunDirectory(tmp_path)
    for step in (1, 2, 3):
        directory.log({"event": "training", "step": step, "text": "über"})
    with directory.metrics.open("a") as file:
        file.write('{"step": 1, "te')
    directory.rewind(2)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2]
    directory.log({"step": 3})
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]
