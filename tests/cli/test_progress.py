"""What the progress display prints."""

import io
from unittest.mock import Mock

import pytest
from rich.console import Console

from plugformer.hooks import SampleOutput, Update
from plugformer_cli import progress
from plugformer_cli.progress import ProgressDisplay


def test_samples_mean_neither_markup_nor_commands_to_the_terminal():
    out = io.StringIO()
    ProgressDisplay(Console(file=out)).samples_shown(
        [SampleOutput("\x1b[2J", "[red]x\x9b2J", "\x1b]0;title\x07")]
    )
    printed = out.getvalue()
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)
    assert r"\x1b[2J" in printed
    assert r"[red]x\x9b2J" in printed


@pytest.mark.parametrize("known", [[1, 2, 3, 4], [2, 4]])  # on a CPU, and on a GPU
def test_a_line_has_the_mean_loss_of_the_updates_since_the_last_one(known):
    """By hand: (1 * 10 + 4 * 30) / 40, and 2; the third update is left out."""
    out = io.StringIO()
    display, run = ProgressDisplay(Console(file=out, width=200)), Mock(steps=4)
    run.task.training.log_every = 2
    display.run_started(run)
    losses = {1: 1.0, 2: 4.0 if 1 in known else 3.25, 3: float("nan"), 4: 2.0}
    for step, targets in enumerate((10, 30, 10, 10), start=1):
        loss = losses[step] if step in known else None
        left_out = {"left_out": True, "skipped": 1} if step == 3 else {}
        display.step_ended(run, Update(step, 1, loss, targets, targets, None, 1e-3, 1.0, **left_out))
    assert [line.split("loss ")[1].split()[0] for line in out.getvalue().splitlines()] == ["3.2500", "2.0000"]


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


def test_a_dumb_terminal_gets_plain_lines():
    """Such as a shell in Emacs, where nothing can be redrawn and rich shows no bar."""
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, _environ={"TERM": "dumb"})
    display, run = ProgressDisplay(console), Mock(steps=1)
    run.task.training.log_every = 1
    display.run_started(run)
    display.step_ended(run, Update(1, 1, 1.0, 1, 1, None, 1e-3, 1.0))
    assert "step 1/1  epoch 1  loss 1.0000" in out.getvalue()
