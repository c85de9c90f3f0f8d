"""Sentences with several translations: each is scored once, against all of them."""

from pathlib import Path

import pytest

from plugformer.evaluation.predictor import GenerativePredictor
from plugformer.interfaces import Prediction
from plugformer.runs.loading import load
from plugformer.training.train import train

SOURCES, TRANSLATIONS, HELD_OUT = 20, 3, 5
SMALL = (
    *("model.width=16", "model.layers=1", "model.ffn_width=16", "training.steps=1"),
    *(f"data.split={{validation: 4, test: {HELD_OUT}, by: group}}", "tokenizer.source.size=300"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data repeat a row, and have the translations of a sentence apart from each other."""
    tmp_path = tmp_path_factory.mktemp("tatoeba")
    rows = [
        f"I see {row} things.\tje vois {row} choses de la {version} façon"
        for version in (*range(TRANSLATIONS), 0)
        for row in range(SOURCES)
    ]
    (tmp_path / "rows.txt").write_text("\n".join(rows), encoding="utf-8")
    overrides = [*SMALL, f"data.files.train={tmp_path / 'rows.txt'}"]
    train("tatoeba-en-fr", overrides=overrides, out=tmp_path / "run", notify=str)
    return tmp_path / "run"


@pytest.mark.parametrize("version", range(TRANSLATIONS))
def test_any_of_the_translations_is_right(run: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[str] = []

    def predict(self, split, rows):
        answered.extend(split.input(row) for row in rows)
        return [Prediction(split.references(row)[version], 0.0) for row in rows]

    monkeypatch.setattr(GenerativePredictor, "predict", predict)
    report = load(run).evaluate("test")
    assert report.examples == len(answered) == len(set(answered)) == HELD_OUT
    assert report.metrics["bleu_lowercase"]["value"] == pytest.approx(100)
    assert report.metrics["chrf_lowercase"]["value"] == pytest.approx(100)
    assert f"nrefs:{TRANSLATIONS}|" in report.metrics["bleu_lowercase"]["signature"]
