"""What the progress display prints."""

import io

from rich.console import Console

from plugformer.hooks.specification import EvaluationResult, SampleOutput
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
