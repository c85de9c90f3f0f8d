"""The notebooks of examples/ run from their first cell to their last in a kernel of their own."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


def outputs(name: str, folder: Path) -> list[str]:
    """Runs a notebook with few updates; returns the outputs of its cells, as text or HTML."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = re.sub(r"^steps = \d+$", "steps = 3", cell.source, flags=re.MULTILINE)
        cell.source = cell.source.replace('"limit": 200}', '"limit": 4}').replace(
            '"extends": "copying",', '"extends": "copying", "data": {"held_out": 4},'
        )
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    shown = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    data = [output["data"] for output in shown if "data" in output]
    return [each.get("text/html", each.get("text/plain", "")) for each in data]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_new_attention_is_checked_trained_and_compared(tmp_path: Path) -> None:
    shown = outputs("new_attention", tmp_path)
    assert shown[0] == "True"
    assert "exact_match" in shown[1]
    assert any("cosine" in output and "<table" in output for output in shown)
    assert len((NOTEBOOKS / "new_attention.ipynb").read_text().split('"source"')) > 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_rows_in_memory_become_a_model(tmp_path: Path) -> None:
    report, answers, *_, measured = outputs("rows_in_memory", tmp_path)
    assert "accuracy" in report
    assert "good" in answers
    assert "rows in memory" in measured
