"""Published studies: today's code makes the same of their data, and the pages print what it makes of them."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import StudyResults
from plugformer_ablation.reporting.report import StudyReport

DOCS = Path(__file__).parents[2] / "docs"
STUDIES = sorted(file.parent for file in DOCS.glob("studies/*/report.json"))
EXAMPLE = DOCS / "studies" / "attention_and_positions"


def rounded(record):
    """Returns what JSON holds of a record, with six digits of numbers: other processors sum otherwise."""
    return json.loads(json.dumps(record), parse_float=lambda number: float(f"{float(number):.6g}"))


def folder_of(study):
    """Returns the folder of the example with this title, or one beside it."""
    title = f"study: {study}\n"
    files = DOCS.parent.glob("examples/*/*.yaml")
    found = (file.parent for file in files if title in file.read_text(encoding="utf-8"))
    return next(found, DOCS.parent / "examples" / "any")


def without_figures(page):
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_the_example_is_published():
    assert EXAMPLE in STUDIES


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_report_is_what_its_data_say(study):
    published = json.loads((study / "report.json").read_text(encoding="utf-8"))
    del published["cells"]
    assert rounded(find(StudyResults.load(study, Registry.discover())).record) == rounded(published)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_settings_are_those_of_today_so_that_it_can_be_reproduced(study, tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGFORMER_DATA", str(tmp_path))
    pairs = ("cmn_eng/cmn.txt", "fra_eng/fra.txt.gz", "couplets/tang/in.txt", "couplets/tang/out.txt")
    for name in ("tinyshakespeare/input.txt.gz", "ag_news/train_part.csv.gz", "ag_news/test.csv", *pairs):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        line = b"1,Nothing,No line of these\tis read.\n"
        file.write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    (tmp_path / "texts").mkdir()
    for name in ("movies", "newsgroups", "hedges", "tweets", "reuters"):
        for ending in ("", "_more"):
            (tmp_path / f"texts/{name}{ending}.csv").write_text("text,label\nNothing of this is read.,none\n")
    (tmp_path / "pairs").mkdir()
    for name in ("wagtail_it", "wagtail_ru"):
        (tmp_path / f"pairs/{name}.csv").write_text("english,translation\nNothing of this,is read\n")
    record = json.loads((study / "report.json").read_text(encoding="utf-8"))
    declared = record["study"]["registry"] or []
    declared = [declared] if isinstance(declared, str) else declared
    local = [(folder_of(record["study"]["study"]) / name).resolve() for name in declared]
    registry = Registry.discover(*local)
    for arm in record["arms"]:
        try:
            validate(resolve(arm["task"], registry=registry))
        except ConfigurationError as error:  # what a bridge leads to need not be installed
            assert "No module named" in str(error)


def test_the_page_of_the_example_is_written_by_todays_code(tmp_path):
    folder = shutil.copytree(EXAMPLE, tmp_path / "study")
    StudyReport(find(StudyResults.load(folder, Registry.discover()))).write(folder, print)
    written = (folder / "report.html").read_text(encoding="utf-8")
    published = EXAMPLE.with_suffix(".html").read_text(encoding="utf-8")
    assert without_figures(written) == without_figures(published), "run `plugformer ablate` with its folder"
    assert (folder / "cells.csv").read_text() == (EXAMPLE / "cells.csv").read_text()


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_page_prints_its_differences(study):
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    if f"<!-- generated: study-table {study.name} -->" in pages:  # by what is generated, it is
        return
    for comparison in json.loads((study / "report.json").read_text(encoding="utf-8"))["comparisons"]:
        difference, low, high = (comparison[name] for name in ("difference", "low", "high"))
        texts = [f"{difference:.{n}f} [{low:.{n}f}, {high:.{n}f}]" for n in (2, 3, 4)]
        assert any(text in pages for text in texts), texts
