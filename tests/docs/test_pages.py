"""Every page of the documentation does what it shows: commands run, task files are sound, Python works."""

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "tasks").rglob("README.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_works(page: Path, do_page: Callable[[str], int]) -> None:
    text = page.read_text(encoding="utf-8")
    assert do_page(text) == text.count("\n```") // 2  # no fence escaped the reader


def test_no_command_imports_from_the_working_directory() -> None:
    """It may be a stranger's, with a `torch.py`; `-m` alone would import that."""
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    commands = [line for line in lines if " -m plugformer " in line]
    assert commands
    assert [line for line in commands if "PYTHONSAFEPATH=1 " not in line] == []


def test_a_page_whose_command_fails_is_noticed(do_page: Callable[[str], int]) -> None:
    with pytest.raises(AssertionError, match="unknown kind 'attentoin'"):
        do_page("```console\n$ plugformer list attentoin\n```\n")


def test_a_page_that_shows_other_output_is_noticed(do_page: Callable[[str], int]) -> None:
    with pytest.raises(AssertionError, match=r"does not print \['plugformer 9"):
        do_page("```console\n$ plugformer --version\nplugformer 9.9.9\n```\n")


def test_a_task_that_is_not_sound_is_noticed(do_page: Callable[[str], int]) -> None:
    with pytest.raises(Exception, match="unknown attention 'gqaa'"):
        do_page("```yaml\nmodel: {attention: gqaa}\n```\n")
