"""Dates: generated ones and those from a file."""

import re
from contextlib import suppress
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from datasets import DatasetDict
from tests.columns import PAIRS

from plugformer.errors import ConfigurationError, DataError
from plugformer.registry import Registry
from plugformer_tasks.dates.data import Dates
from plugformer_tasks.dates.exceptions import exchanged_dates, no_dates
from plugformer_tasks.dates.spelling import FIRST, LAST, spelled_dates


def load(**options: Any) -> DatasetDict:
    data: DatasetDict = Registry.discover().create("data", "dates", **options).load(PAIRS)
    return data


def test_generated_splits() -> None:
    data = load(size=1000)
    assert {name: len(part) for name, part in data.items()} == {
        "train": 900,
        "validation": 50,
        "test": 50,
    }
    sources = [source for name in ("train", "validation", "test") for source in data[name]["source"]]
    assert len(set(sources)) == 1000
    assert all(FIRST <= date.fromisoformat(target) <= LAST for target in data["train"]["target"])


SPELLINGS = {
    ("en_US", "2005-03-04"): (
        *("3/4/05", "03/04/05", "3/4/2005", "3-4-05", "03.04.2005", "03042005", "3 / 4 / 2005"),
        *("2005-03-04", "2005/3/4", "20050304", "2005_03_04", "2005-Mar-04", "2005 March 4"),
        *("Mar 4, 2005", "MARCH 4, 2005", "mar. 4 '05", "March 4th,2005", "March the 4th, 2005"),
        *("4 March 2005", "4-Mar-05", "4th March 2005", "the fourth of March, 2005"),
        *("this 4th day of March, 2005", "March  4, 2005", "March4, 2005"),
        *("friday, march 4, 2005", "Fri 3/4/2005", "2005-03-04 (Fri)"),
    ),
    ("en_US", "2069-12-31"): ("12/31/69", "Tues, 12/31/69", "December 31, 2069"),
    ("en_US", "1970-01-01"): ("1/1/70", "Jan 1 1970"),
    ("en_GB", "2005-09-04"): ("4/9/05", "4th September 2005", "2005-09-04", "4 Sep 2005", "4 Sept 2005"),
    ("de_DE", "2005-03-04"): ("Freitag, 4. März 2005", "04.03.05", "4.3.2005", "4-März-2005"),
    ("fr_FR", "2005-03-04"): ("VENDREDI 4 MARS 2005", "04/03/2005", "ven. 4 mars 2005"),
    ("hu_HU", "2005-03-04"): ("2005. 03. 04.", "2005. március 4.", "4 márc. '05"),
    ("zh_CN", "2005-03-04"): ("2005年3月4日星期五", "2005年3月4日", "2005/3/4", "2005-03-04 (周五)"),
}


@pytest.mark.parametrize(("locale", "target"), SPELLINGS)
def test_spellings(locale: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    day = date.fromisoformat(target)
    monkeypatch.setattr("plugformer_tasks.dates.spelling.FIRST", day)
    monkeypatch.setattr("plugformer_tasks.dates.spelling.LAST", day)
    monkeypatch.setattr("plugformer_tasks.dates.spelling._PATIENCE", 100)
    spelled = {source for source, _ in spelled_dates([locale], seed=1)}
    assert not set(SPELLINGS[locale, target]) - spelled


def test_no_spelling_means_two_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of years whose two digits could be a month or a day."""
    monkeypatch.setattr("plugformer_tasks.dates.spelling.FIRST", date(2010, 1, 1))
    monkeypatch.setattr("plugformer_tasks.dates.spelling.LAST", date(2012, 12, 31))
    some, others = (dict(islice(spelled_dates(["en_US"], seed), 10_000)) for seed in (1, 2))
    both = some.keys() & others.keys()
    assert len(both) > 100
    assert all(some[source] == others[source] for source in both)


def test_bad_options(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown locale 'de_DEE' \(did you mean 'de_DE'\?\)"):
        load(locales=["de_DEE"])
    monkeypatch.setattr("plugformer_tasks.dates.spelling.LAST", FIRST)
    monkeypatch.setattr("plugformer_tasks.dates.spelling._PATIENCE", 1)
    with pytest.raises(ConfigurationError, match=r"size: 50000 is more than .*'en_US'"):
        load()


def test_a_file_is_cut_in_its_order(tmp_path: Path) -> None:
    lines = [f"day {number % 38:<20}_2000-01-{number:02}\n" for number in range(40)]
    (tmp_path / "dates.txt").write_text("".join(lines), encoding="utf-8")
    data = load(path=tmp_path / "dates.txt")
    assert [len(data[name]) for name in ("train", "validation", "test")] == [36, 2, 2]
    assert data["train"][1] == {"source": "day 1", "target": "2000-01-01"}
    assert data["validation"]["target"][:] == ["2000-01-36", "2000-01-37"]
    assert data["test"]["source"][:] == ["day 0", "day 1"]
    assert "test_unseen" not in data  # every source occurs before


def test_unseen_sources_occur_nowhere_before(tmp_path: Path) -> None:
    sources = [*map(str, range(36)), "a", "b", "b", "c"]
    (tmp_path / "dates.txt").write_text("".join(f"{source}_x\n" for source in sources), encoding="utf-8")
    assert load(path=tmp_path / "dates.txt")["test_unseen"]["source"][:] == ["c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a_1\nb 2\n", r"dates\.txt:2: expected a source, '_' and a target, found 'b 2'"),
        ("a_1\nb_ \n", r"dates\.txt:2: expected"),
        ("a_1\n", r"dates\.txt: 1 lines are too few"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "dates.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load(path=tmp_path / "dates.txt")


def test_exceptions_replace_other_rows_only() -> None:
    rows, changed = (Dates(size=1000, exceptions=share)._generated() for share in (0.0, 0.1))
    assert [n for n in range(1000) if rows[n] != changed[n]] == [
        n for n in range(1000) if n % 10 == 0 or (n % 10 == 5 and n < 900)
    ]
    assert len({source for source, _ in changed}) == 1000


@pytest.mark.parametrize(
    ("locale", "form", "source"),
    [
        ("en_US", "%d.%m.%Y", "23.11.2026"),
        ("en_US", "%d/%m/%Y", "25/12/2020"),
        ("de_DE", "%m/%d/%Y", "12/25/2020"),
    ],
)
def test_exchanged_numbers_of_which_one_can_be_the_day(locale: str, form: str, source: str) -> None:
    found = list(islice(exchanged_dates([locale], seed=1), 2000))
    assert all(date.fromisoformat(target).day > 12 for _, target in found)
    read = {}
    for text, target in found:
        with suppress(ValueError):  # in other forms
            read[text] = (datetime.strptime(text, form).date().isoformat(), target)
    assert len(read) > 20
    assert all(theirs == target for theirs, target in read.values())
    assert re.sub(r"\d+", "0", source) in {re.sub(r"\d+", "0", text) for text in read}


def test_what_names_no_day_has_days_at_random() -> None:
    """So that one text has many days, and none of them is learned."""
    found = list(islice(no_dates(["en_US"], seed=1), 5_000))
    days: dict[str, set[str]] = {}
    for source, target in found:
        days.setdefault(source.lower(), set()).add(target)
    assert max(map(len, days.values())) > 1
    real = dict(islice(spelled_dates(["en_US"], seed=1), 10_000))
    assert not real.keys() & {source for source, _ in found}
