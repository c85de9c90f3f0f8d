"""The bundled task reads dates as people write them: a list written by hand, before the generator was."""

from pathlib import Path

import pytest

from plugformer.runs.loading import load
from plugformer.training.train import train

NATURAL = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "natural_dates.tsv").read_text(encoding="utf-8").splitlines()
]


SHORT = ("data.size=40000", "training.steps=500", "training.evaluate_every=500")
"""A training of a minute."""


@pytest.mark.long
def test_dates_are_learned(tmp_path: Path) -> None:
    report = train("dates", overrides=SHORT, out=tmp_path / "run", notify=str).report
    assert report.metrics["exact_match"]["value"] >= 0.88  # of generated dates, which are odder than people's
    answers = load(tmp_path / "run").predict([source for source, _ in NATURAL])
    wrong = [
        (source, answer.output)
        for (source, target), answer in zip(NATURAL, answers, strict=True)
        if answer.output != target
    ]
    assert len(wrong) <= 24, wrong
    exchanged = load(tmp_path / "run").predict(["23.11.2026", "25/12/2020", "13/7/1999"])
    assert [answer.output for answer in exchanged] == ["2026-11-23", "2020-12-25", "1999-07-13"]
    nothing = load(tmp_path / "run").predict(["Feb 30", "Feb 30, 2020", "30 Feb 2012", "April 31, 2010"])
    assert all(answer.probability < 0.7 for answer in nothing), nothing
