"""What the progress display prints."""

import io
from unittest.mock import Mock

import pytest
from rich.console import Console

from plugformer.hooks.specification import EvaluationResult, SampleOutput
from plugformer_cli import progress
from plugformer_cli.progress import ProgressDisplay


def test_token_accuracy_is_printed_once_although_it_is_a_metric_of_the_task():
    out = io.StringIO()
    metrics = {"token_accuracy": 0.7852, "exact_match": 0.5}
    evaluation = EvaluationResult(
        step=5, loss=1.0, token_accuracy=0.7852, metrics=metrics, samples=[], best=False, seconds=1.0
    )
    ProgressDisplay(Console(file=out, width=200)).evaluation_ended(evaluation)
    assert out.getvalue().strip() == (
        "step 5  validation loss 1.0000  token accuracy 78.52%  exact_match 0.5000"
    )


def test_samples_mean_neither_markup_nor_commands_to_the_terminal():
    out = io.StringIO()
    ProgressDisplay(Console(file=out)).samples_shown(
        [SampleOutput("\x1b[2J", "[red]x\x9b2J", "\x1b]0;title\x07")]
    )
    printed = out.getvalue()
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)
    assert r"\x1b[2J" in printed
    assert r"[red]x\x9b2J" in printed


@pytest.mark.parametrize("has_widgets", [True, False])
def test_jupyter_shows_a_bar_if_it_can(monkeypatch, has_widgets):
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if has_widgets else None)
    display = ProgressDisplay(Console(force_jupyter=True))
    monkeypatch.setattr(display._bar, "start", lambda: None)
    run = Mock(steps=2)
    run.task.training.log_every = 1
    display.run_started(run)
    display.step_ended(run, Mock(step=1, epoch=1, loss=0.5, tokens=3, seconds=1.0, skipped=0))
    assert display._bar.disable is not has_widgets
    assert display._bar.tasks[0].completed == int(has_widgets)
