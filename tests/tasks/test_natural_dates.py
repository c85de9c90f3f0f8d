"""The bundled task reads dates as people write them: a list written by hand, before the generator was."""

from datetime import date
from pathlib import Path

import pytest

from plugformer.runs.loading import load
from plugformer.training.train import train

NATURAL = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "natural_dates.tsv").read_text(encoding="utf-8").splitlines()
]


def test_the_list() -> None:
    assert len({source for source, _ in NATURAL}) == 200
    assert all(1970 <= date.fromisoformat(target).year <= 2069 for _, target in NATURAL)


@pytest.mark.long
def test_dates_are_learned(tmp_path: Path) -> None:
    report = train("dates", out=tmp_path / "run", notify=str)
    assert report.metrics["exact_match"]["value"] >= 0.99  # of generated dates, which are odder than people's
    answers = load(tmp_path / "run").predict([source for source, _ in NATURAL])
    wrong = [
        (source, answer.output)
        for (source, target), answer in zip(NATURAL, answers, strict=True)
        if answer.output != target
    ]
    assert len(wrong) <= 6, wrong
