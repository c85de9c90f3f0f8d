"""What a terminal shows while the cells of a study run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from plugformer_ablation.cells import Cell
from plugformer_ablation.progress import StudyProgress
from plugformer_ablation.training import Message


@pytest.mark.parametrize("arm", ["layers=[1, 2]", "inputs=[a, b]", "files=[/tmp/a.csv]"])
def test_a_terminal_shows_the_name_of_an_arm_as_it_is(arm):
    shown = io.StringIO()
    cell = Cell(arm, 1, "", Path("cell"), {}, (), 1, 1.0)
    with StudyProgress(Console(file=shown, force_terminal=True, width=80), 2, 0) as progress:
        progress.show((cell, Message(3, 10)))
        progress.refresh()
        progress.show((cell, Message(failure="it broke")))
    assert f"{arm}, seed 1 " in shown.getvalue()
    assert f"[1/2] {arm}, seed 1: failed: it broke" in shown.getvalue()
