"""What a paper takes from a report: tables without loose markup, methods with all numbers, and the price."""

import re
from dataclasses import replace

import pytest

from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.paper import methods, paper_files
from plugformer_ablation.reporting.report import StudyReport, comparisons_table, paper_table

HOSTILE = r"50 % & a_b\c | {x} ~ ^2 <y>"
PATH = "training.optimizer.lr"
TRIAL = {"tuned": {PATH: 0.1}, "seed": 2**20, "loss": 1.0, "seconds": 1800.0, "share": 1}


@pytest.fixture(scope="module")
def findings(request):
    make = request.getfixturevalue("made_up")
    return find(make({"baseline": 0.9, "worse": 0.5, HOSTILE: 0.9}, seeds=3, examples=40))


def test_the_latex_table_has_a_row_for_each_arm_and_no_loose_markup(findings):
    text = paper_files(findings, paper_table(findings))["table.tex"]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [5] * 4
    assert all(f"\\{rule}rule" in text for rule in ("top", "mid", "bottom"))
    escaped = r"50 \% \& a\_b\textbackslash{}c | \{x\} \textasciitilde{} \textasciicircum{}2 $<$y$>$"
    assert any(row.startswith(escaped) for row in rows)
    assert re.search(r"\$-0\.\d+\$ & \$\[-0\.\d+, -0\.\d+\]\$ & .* & worse", text)
    assert not re.search(r"[^\x00-\x7f]", text), "every engine of LaTeX reads it"


def test_the_markdown_table_has_a_row_for_each_arm(findings):
    lines = paper_files(findings, paper_table(findings))["table.md"].splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [7] * 5


def test_methods_tell_seeds_test_level_and_price(findings):
    text = methods(findings)
    for expected in ("3 arms", "seeds 1, 2, 3", "on test, higher is better", "examples: 40", "97.5 %"):
        assert expected in text
    assert "No setting was tuned" in text
    assert "0.15 device-hours of updates in 9 trainings" in text
    assert "plugformer 0.1.0" in text


def test_tuning_looks_margins_and_divergence_are_told_with_their_price(made_up):
    results = made_up({"baseline": 0.9, "other": 0.5}, seeds=4, examples=40)
    study = {**results.study, "looks": [2, 4], "smallest_effect": "1 %"}
    cells = tuple(replace(cell, diverged="loss" if cell.seed == 4 else None) for cell in results.cells)
    arms = tuple({**arm, "tuned": {PATH: 0.1}} for arm in results.arms)
    trials = tuple({"arm": name, **TRIAL} for name in ("baseline", "other", "other"))
    found = find(replace(results, study=study, cells=cells, arms=arms, trials=trials))
    for expected in (
        f"chose {PATH} on validation, in 1 to 2 trials",
        "looked at after 2 and 4",
        "declared as 1 %",
        "2 of 8 trainings diverged",
        "and 1.50 device-hours in 3 trials of tuning",
    ):
        assert expected in methods(found)
    assert [arm["spent"]["trial_seconds"] for arm in found.record["arms"]] == [1800, 3600]
    assert "the study took 0.13 device-hours" in StudyReport(found).text(None)


def test_seeds_that_looks_have_saved_are_not_told_as_trained(made_up):
    results = made_up({"baseline": 0.9, "worse": 0.3}, seeds=3, examples=200)
    study = {**results.study, "seeds": [*range(1, 9)], "looks": [3, 5, 8]}
    text = methods(find(replace(results, study=study)))
    assert "2 arms were trained with the seeds 1, 2, 3." in text
    assert "; 3 of 8 planned seeds, looked at after 3; baseline" in text
    some = tuple(cell for cell in results.cells if cell.arm == "baseline" or cell.seed < 3)
    found = find(replace(results, study={**study, "looks": [2, 3]}, cells=some))
    assert "2 arms were trained with 2 to 3 of the seeds 1, 2, 3." in methods(found)
    assert [*paper_table(found)["cells"]] == ["3", "2"]


def test_looks_at_different_levels_share_a_column(made_up):
    results = made_up({"baseline": 0.9, "worse": 0.3, "same": 0.9}, seeds=6, examples=200)
    found = find(replace(results, study={**results.study, "looks": [3, 6]}))
    assert len({comparison["level"] for comparison in found.comparisons}) == 2
    table = comparisons_table(found)
    assert not table.isna().any(axis=None)
    assert re.fullmatch(r"\[.*\] \(9\d\.\d+ %\)", table["interval"][0])
