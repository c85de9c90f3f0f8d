"""Transformers computes what the model does, for every family that trained models can be."""

import json
import re

import pytest

from plugformer import load
from plugformer_export.engine import UnsupportedExport
from plugformer_export.transformers import Transformers
from plugformer_export.verification import verified

pytest.importorskip("transformers")

LLAMA = (
    *("model.position=rope", "model.norm=rms_norm", "model.feed_forward=swiglu", "decoding.name=greedy"),
    *("model.attention={name: gqa, bias: false}", "model.embeddings={tied: true, scaled: false}"),
    "model.parametrization={name: mup, base_width: 8}",  # whose factors are a part of the values
)
MARIAN = (
    *("model.position=sinusoidal", "model.residual=post", "model.feed_forward=relu"),
    *("model.embeddings={shared: true, tied: true, scaled: true}", "decoding.max_length=9"),
)
BERT = (
    *("model.position={name: normalized, epsilon: 1e-5}", "model.residual=post"),
    *("model.embeddings.scaled=false", "model.head={name: classifier, pooling: first, hidden: 16}"),
)
RUNS = {
    "llama": ("shakespeare", LLAMA, "LlamaForCausalLM"),
    "marian": ("dates", MARIAN, "MarianMTModel"),
    "bert": ("ag-news", BERT, "BertForSequenceClassification"),
}


def run_card(folder, texts, monkeypatch):
    """Runs the program of a model card, which does not import plugformer."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert "plugformer" not in code
    monkeypatch.chdir(folder)
    session: dict = {}
    exec(code, session)  # noqa: S102 (that is what the card tells its reader to do)
    return session["answer"](texts)


@pytest.mark.parametrize("kind", RUNS)
def test_trained_runs_are_verified_and_answer_without_plugformer(
    exportable, sample_data, monkeypatch, tmp_path, kind
):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    task, overrides, name = RUNS[kind]
    trained = exportable(*overrides, task=task)
    found = verified(trained, Transformers(), tmp_path / "out", examples=9)
    assert found.equal == found.examples
    assert found.difference < 1e-5
    config = json.loads((tmp_path / "out/config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == [name]
    texts = ["I see 2 red houses", "You see it"] if kind != "marian" else ["March 5, 1996", "2001-02-03"]
    expected = [answer.output for answer in trained.predict(texts)]
    assert run_card(tmp_path / "out", texts, monkeypatch) == expected


def test_beam_search_finds_the_same(exportable, registry, tmp_path):
    beam = ["decoding.name=beam", "decoding.size=3", "decoding.length_penalty=0.7"]
    trained = load(exportable(*MARIAN).directory, registry, overrides=beam, device="cpu")
    assert verified(trained, Transformers(), tmp_path / "out", examples=5).equal == 5
    found = json.loads((tmp_path / "out/generation_config.json").read_text(encoding="utf-8"))
    assert (found["num_beams"], found["length_penalty"]) == (3, 0.7)


def test_what_has_no_counterpart_is_refused_by_name(exportable, registry, tmp_path):
    trained = load(exportable().directory, registry, overrides=["decoding.name=sampling"], device="cpu")
    with pytest.raises(UnsupportedExport) as refused:
        verified(trained, Transformers(), tmp_path / "out", examples=9)
    words = str(refused.value).splitlines()
    starts = ("model.residual: residual 'pre'", "model.embeddings.tied: false", "decoding: 'sampling'")
    for start in starts:
        assert [word for word in words if word.startswith(start) and "no counterpart" in word]
    assert not list(tmp_path.iterdir())
