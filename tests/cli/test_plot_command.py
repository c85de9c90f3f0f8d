"""`plugformer plot`: files, page and messages, from runs as they are and as they get damaged."""

import json
import xml.etree.ElementTree as ElementTree

from plugformer.errors import DataError

NAMES = [
    "learning-curves",
    "learning-rate",
    "positions-encoder-embed",
    "positions-decoder-embed",
    "attention-encoder-self-layer-0",
    "attention-decoder-self-layer-0",
    "attention-decoder-cross-layer-0",
]


def test_every_figure_as_svg_and_png_and_a_page(run, run_copy):
    outcome = run("plot", str(run_copy), "7/4/76")
    assert (outcome.status, outcome.err) == (0, "")
    folder = run_copy / "plots"
    expected = [folder / f"{name}.{form}" for name in NAMES for form in ("svg", "png")]
    assert outcome.out.splitlines() == [str(file) for file in [*expected, folder / "index.html"]]
    for name in NAMES:
        ElementTree.parse(folder / f"{name}.svg")  # noqa: S314 (our own file)
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "Input: 7/4/76" in text
    assert "exact_match" in text
    assert text.count("<svg") == len(NAMES)


def test_the_first_validation_example_where_there_is_no_text(run, run_copy, tmp_path):
    outcome = run("plot", str(run_copy), "--out", "there", "--json")
    printed = json.loads(outcome.out)
    assert printed["run"] == str(run_copy)
    assert printed["files"][-1] == "there/index.html"
    assert len(printed["files"]) == 2 * len(NAMES) + 1
    assert not (run_copy / "plots").exists()


def test_a_name_of_an_image_is_no_folder(run, run_copy, tmp_path):
    outcome = run("plot", str(run_copy), "--out", "curves.PNG")
    assert outcome.status == 2
    assert "--out curves.PNG" in outcome.err
    assert not (tmp_path / "curves.PNG").exists()


def test_without_readable_data_the_rest_is_drawn(run, run_copy, monkeypatch):
    def unreadable(*arguments):
        raise DataError("pairs.tsv: no such file")

    monkeypatch.setattr("plugformer.data.prepare", unreadable)
    outcome = run("plot", str(run_copy))
    assert outcome.status == 0
    assert outcome.err == (
        "no attention maps: no TEXT given, and the task's data cannot be read: pairs.tsv: no such file\n"
    )
    assert "attention-" not in outcome.out
    assert "learning-curves.svg" in outcome.out


def test_a_run_without_its_log_has_no_curves(run, run_copy):
    (run_copy / "metrics.jsonl").unlink()
    (run_copy / "evaluation.json").unlink()
    outcome = run("plot", str(run_copy), "7/4/76")
    assert outcome.status == 0
    assert outcome.err == f"no learning curves: {run_copy / 'metrics.jsonl'} is missing\n"
    assert "learning" not in outcome.out
    assert "attention-encoder-self-layer-0.svg" in outcome.out
