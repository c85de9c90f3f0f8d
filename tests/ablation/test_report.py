"""All forms of the report: what they say, that they fit, and that nothing in them is taken for markup."""

import csv
import json
import re
import sys
from dataclasses import replace
from html import unescape

import pytest
from tests.ablation.studies import with_cells

from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.reporting.sentences import explanation, remarks, sentences

HOSTILE = 'position=<script>alert("1")</script> & 100%_\\x'
ARMS = {"baseline": 0.93, "attention=gqa": 0.92, "attention=mqa": 0.6, HOSTILE: 0.925}
FAILED = CellResult("attention=gqa", 3, failure="the loss is not finite at update 212")


@pytest.fixture(scope="module")
def findings(request):
    make = request.getfixturevalue("made_up")
    return find(make(ARMS, cells=(FAILED,)))


@pytest.fixture(scope="module")
def folder(findings, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    notices = []
    files = StudyReport(findings).write(out, notices.append)
    assert notices == []
    assert [file for file in files if not file.stat().st_size] == []
    assert files[-1] == out / "report.html"
    return out


def test_without_matplotlib_a_report_has_no_figures(findings, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plugformer_ablation.reporting.figures", None)
    notices = []
    files = StudyReport(findings).write(tmp_path, notices.append)
    assert not {file.suffix for file in files} & {".png", ".svg"}
    assert files[-1] == tmp_path / "report.html"
    assert len(notices) == 1
    assert "'plugformer[figures]'" in notices[0]


def test_a_figure_that_cannot_be_drawn_loses_nothing_else(findings, tmp_path, monkeypatch):
    from plugformer_ablation.reporting import figures

    def broken(*given):
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(figures, "_curves", broken)
    notices = []
    files = StudyReport(findings).write(tmp_path, notices.append)
    assert {"report.json", "report.csv", "cells.csv", "report.html"} <= {file.name for file in files}
    assert notices == ["the report lacks figures: ZeroDivisionError: no room"]


def test_figures_of_many_arms_show_those_that_matter(made_up, tmp_path):
    """The last arm is the only one with a verdict: no figure may leave it out."""
    results = made_up({f"arm {number}": 0.7 for number in range(59)} | {"the worst": 0.1}, 2, 40)

    def scored(cell):
        return {"metrics": {"exact_match": float(cell.seed + 0.01 * (cell.arm == "the worst"))}}

    found = find(with_cells(results, scored))
    found.comparisons[-1]["verdict"] = "worse"
    StudyReport(found).write(tmp_path, print)
    rows = (tmp_path / "differences.svg").read_text(encoding="utf-8")
    panels = (tmp_path / "curves-loss.svg").read_text(encoding="utf-8")
    assert [len(re.findall(r">arm \d+<", text)) for text in (rows, panels)] == [39, 23]
    assert all(">the worst<" in text for text in (rows, panels))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The same in sentences" in page
    lines = StudyReport(found).text(None).splitlines()
    scored = [line.split("  ")[0] for line in lines if re.match(r"(arm \d+|the worst) .* ± ", line)]
    ranked = [
        line.split("  ")[0] for line in lines if re.match(r"(arm \d+|the worst) .* (not d|worse)", line)
    ]
    assert len(ranked) == 40
    assert ranked[0] == "the worst", "its score is the best one"
    assert {*scored} == {*ranked, "arm 0"}
    assert "19 more comparisons in report.html" in lines
    assert "Of 59 arms, 40 are shown" in page
    assert "Of 59 arms, 24 are shown" in page


def test_the_page_tells_everything(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    text = unescape(re.sub(r"<[^>]+>", "", page))
    assert HOSTILE in text
    for expected in (
        "attention on dates",
        "exact_match on test, higher is better; 5 seeds",
        "attention=gqa: seed 3 failed: the loss is not finite at update 212",
        "failed: the arm with seed 3 of 5 (the loss is not finite at update 212), the baseline with none",
        "parameters 1.4 % above the baseline's",
        "model.ffn_width",
        "components.attention/mha",
        "not distinguishable",
        "validation loss",
    ):
        assert expected in text
    assert page.count("<svg") == 5, "differences, two curves, paired differences, and the loss by time"
    assert "evaluation.metrics" not in text, "what is the same in all arms is not among the differences"


def test_sentences_give_difference_interval_and_what_follows(findings):
    failed, worse, no_difference = sentences(findings)
    number = r"-?\d\.\d{4}"
    assert re.fullmatch(
        rf"attention=gqa is {number} worse than baseline \(98\.33 % interval {number} to {number}\): "
        r"no verdict; failed: the arm with seed 3 of 5 \(the loss is not finite at update 212\), "
        r"the baseline with none\.",
        failed,
    )
    assert re.fullmatch(
        rf"{re.escape(HOSTILE)} is {number} worse than baseline \(98\.33 % interval {number} to {number}\): "
        r"no difference shown; if the difference stayed as it is, \d+ seeds would decide\.",
        no_difference,
    )
    assert re.fullmatch(
        rf"attention=mqa is 0\.3668 worse than baseline \(98\.33 % interval {number} to {number}\): "
        r"a significant difference\.",
        worse,
    )


def test_sentences_name_the_values_of_the_factor_that_differs(made_up):
    results = made_up({"baseline": 0.9, "other": 0.5}, seeds=2, examples=40)
    labels = [{"attention": "mha", "norm": "rms"}, {"attention": "mqa", "norm": "rms"}]
    arms = tuple({**arm, "values": values} for arm, values in zip(results.arms, labels, strict=True))
    (sentence,) = sentences(find(replace(results, arms=arms)))
    assert re.match(r"attention mqa is 0\.\d+ worse than mha \(95 % interval", sentence)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (55_488, r"other, with 84 % more parameters \(55,488 for 30,080\), is 0"),
        (30_380, "other is 0"),
    ],
)
def test_sentences_say_that_parameters_differ(made_up, parameters, words):
    results = made_up({"baseline": 0.9, "other": 0.5}, seeds=2, examples=40)
    for arm, number in zip(results.arms, (30_080, parameters), strict=True):
        arm["cost"]["parameters"] = number
    found = find(results)
    assert re.match(words, sentences(found)[0])
    assert found.record["comparisons"][0]["parameters"] == {"arm": parameters, "baseline": 30_080}


def test_the_terminal_gets_no_line_that_is_too_long(findings):
    text = StudyReport(findings).text(80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 80
    assert plain != text
    assert len(re.findall(r"\d\.\d{4} ± \d\.\d{4}", plain)) == 2 * len(ARMS), "numbers are not broken"


def test_a_pipe_gets_one_line_for_each_arm_and_comparison_and_no_colors(findings):
    lines = StudyReport(findings).text(None).splitlines()
    assert repr(StudyReport(findings)).splitlines() == lines
    assert "\x1b" not in "".join(lines)
    for arm in ARMS:
        assert len([line for line in lines if line.startswith(f"{arm}  ")]) == 1
    assert set(sentences(findings)) <= set(lines)


def test_json_and_tables_agree(folder):
    record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    with (folder / "report.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(ARMS)
    for comparison in record["comparisons"]:
        row = rows[comparison["arm"]]
        assert float(row["difference"]) == comparison["difference"]
        assert row["verdict"] == comparison["verdict"]
        assert float(row["p.corrected"]) == comparison["p"]["corrected"]
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 20
    assert [cell["failure"] for cell in cells if cell["failure"]] == [FAILED.failure]
    assert not [cell for cell in cells if cell["directory"].startswith("/")]
    assert cells[0]["directory"].startswith("cells/")


@pytest.mark.parametrize(
    ("arms", "seeds", "expected"),
    [
        ({"baseline": 0.9, "other": 0.5}, 1, "no verdict from one seed: how much seeds differ is unknown."),
        ({"baseline": 1.0, "other": 1.0}, 1, "other: every cell scores 1: at its floor or ceiling"),
        ({"baseline": 1.0, "other": 1.0}, 3, "other: every cell scores 1: at its floor or ceiling"),
        ({"baseline": 0.9}, 3, "± is the standard deviation over seeds."),
    ],
)
def test_stated_cases_are_told_without_a_nan(made_up, tmp_path, arms, seeds, expected):
    found = find(made_up(arms, seeds=seeds, examples=40))
    text = StudyReport(found).text(None)
    assert expected in text
    for file in StudyReport(found).write(tmp_path, print):
        if file.suffix not in (".png", ".npz"):
            assert not re.search(r"\b(nan|NaN|inf|Infinity)\b", file.read_text(encoding="utf-8")), file
    assert "nan" not in text


@pytest.mark.parametrize(
    ("chosen", "ends", "expected", "sentence"),
    [
        (
            (0.2, 0.1),
            (None, "smallest"),
            "0.2 for baseline; 0.1 for other (the smallest of those tried, a better one may lie beyond)",
            "; other took the smallest x.y that was tried.",
        ),
        (("cosine", "cosine"), (None, None), "cosine for baseline, other", None),
    ],
)
def test_a_choice_at_the_edge_of_those_tried_is_told(made_up, chosen, ends, expected, sentence):
    results = made_up({"baseline": 0.9, "other": 0.5}, seeds=2, examples=40)
    arms = tuple(
        {**arm, "tuned": {"x.y": value}, "edges": {"x.y": end} if end else {}}
        for arm, value, end in zip(results.arms, chosen, ends, strict=True)
    )
    found = find(replace(results, arms=arms))
    assert f"tuning chose x.y {expected}" in remarks(found)
    (told,) = sentences(found)
    assert told.endswith(sentence) if sentence else "took" not in told


def test_very_large_scores_have_four_digits(made_up, tmp_path):
    results = made_up({"baseline": 0.9, "worse": 0.5}, seeds=3, examples=40)

    def large(cell):
        numbers = {"metrics": cell.metrics, "statistics": cell.statistics}
        return {key: {name: 1e48 * each for name, each in numbers[key].items()} for key in numbers}

    report = StudyReport(find(with_cells(results, large)))
    report.write(tmp_path, print)
    latex, page = ((tmp_path / name).read_text(encoding="utf-8") for name in ("table.tex", "report.html"))
    for text in (report.text(None), latex, (tmp_path / "table.md").read_text(encoding="utf-8")):
        assert not re.search(r"\d{12}", text)
    assert re.search(r"<td[^>]*>\d\.\d+e\+47", page)
    assert re.search(r"\$-\d\.\d+ \\cdot 10\^\{47\}\$", latex)


def test_one_seed_is_not_worded_as_a_verdict(made_up):
    found = find(made_up({"baseline": 0.9, "other": 0.5}, seeds=1, examples=40))
    number = r"-?\d\.\d{4}"
    assert re.fullmatch(
        rf"other and baseline differ by {number} \(95 % interval over test examples alone {number} to "
        rf"{number}\): no verdict from one seed: how much seeds differ is unknown\.",
        *sentences(found),
    )
    lines = " ".join(explanation(found))
    assert "covers test examples alone" in lines
    assert "hold together" not in lines


def test_many_comparisons_contrasts_and_remarks_are_short_on_a_terminal(made_up):
    """One arm has a verdict, and one contrast differs from 0."""
    found = find(made_up({"baseline": 0.9, **{f"arm {n}": 0.9 for n in range(11)}, "worst": 0.4}, 3, 200))
    contrast = {
        "contrast": "trend",
        "weights": {"worst": 1.0},
        "difference": -0.5,
        "level": 0.99,
        "broken": {},
    }
    ends = [(-0.6, -0.4), *[(-0.6, 0.4)] * 7]
    found.record["contrasts"] = [{**contrast, "low": low, "high": high} for low, high in ends]
    found.record["arms"][1]["remarks"] = [f"remark {n}" for n in range(3)]
    for arm in found.record["arms"][2:]:
        arm["remarks"] = ["matched"]
    text = StudyReport(found).text(None)
    assert re.search(r"^worst +-0\.\d{4} +\[-0\.\d{4}, -0\.\d{4}\] +worse +- +\d[\d.]* \[.*\]$", text, re.M)
    assert len(re.findall(r"^arm \d+ .* not distinguishable +(\d+ seeds|-) +\d[\d.]* \[", text, re.M)) == 11
    assert not any(sentence in text for sentence in sentences(found))
    assert "times as fast" not in text
    assert text.count("trend: ") == 1
    assert "7 contrasts are not shown to differ from 0" in text
    assert "more remarks in report.html" in text
    narrow = StudyReport(found).text(80)
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines())) <= 80
