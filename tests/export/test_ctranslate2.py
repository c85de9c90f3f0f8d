"""CTranslate2 computes what the model does, for every mixture of parts that it has."""

import json
import re
import subprocess
import sys

import pytest

from plugformer_export.ctranslate2 import CTranslate2
from plugformer_export.engine import UnsupportedExport
from plugformer_export.verification import verified

SLOWLY = ("training.optimizer={name: adamw, lr: 0.001}", "training.schedule.warmup_steps=200")
"""Else the young model writes up to the limit, where beams of Plugformer and of CTranslate2 differ."""

MIXTURES = {
    "post-norm, sinusoidal, tied": (
        *("model.residual=post", "model.position=sinusoidal", "model.feed_forward=relu"),
        *("model.embeddings={shared: true, tied: true, scaled: true}", "model.final_norm=true"),
    ),
    "rope, grouped, swiglu, rms": (
        *("model.position=rope", "model.attention=gqa", "model.feed_forward=swiglu", "model.norm=rms_norm"),
        "model.embeddings={shared: false, tied: true, scaled: false}",
    ),
    "t5, geglu, no final norm": (
        *("model.position=t5", "model.feed_forward=geglu", "model.norm=rms_norm", "model.final_norm=false"),
        "model.attention={name: mha, bias: false}",
    ),
    "none, one head, reglu, two layers": (
        *("model.position=none", "model.attention=mqa", "model.feed_forward=reglu", "model.layers=2"),
        "model.head={name: language_model, bias: true}",
    ),
    "alibi in the decoder, tanh": (
        *("model.position=learned", "model.decoder.position=alibi", "model.heads=4"),
        "model.feed_forward={name: gelu, approximate: tanh}",
    ),
    "beam": (*SLOWLY, "decoding.name=beam", "decoding.size=3", "decoding.max_length=30"),
    "beam without penalty": (
        *SLOWLY,
        *("decoding.name=beam", "decoding.size=3", "decoding.length_penalty=0", "decoding.max_length=30"),
    ),
    "source as prefix": (
        *("model.architecture=decoder-only", "model.position=rope", "model.embeddings.shared=false"),
        "model.max_length=80",
    ),
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_it_translates_as_the_run_does(exportable, tmp_path, mixture):
    found = verified(exportable(*MIXTURES[mixture]), CTranslate2(), tmp_path / "out", examples=9)
    assert found.equal == found.examples == 9
    assert found.difference < 1e-5


OTHERS = {
    "text": ("shakespeare", ("decoding.name=greedy",)),
    "classes": ("ag-news", ("model.position=rope",)),
    "tags": ("ud-ewt", ()),
    "vectors": ("sick-similarity", ()),
    "vectors without a head": ("multi30k-retrieval", ()),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_levels(exportable, sample_data, monkeypatch, tmp_path, kind):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    task, overrides = OTHERS[kind]
    found = verified(exportable(*overrides, task=task), CTranslate2(), tmp_path / "out", examples=9)
    assert found.equal == found.examples
    assert found.difference < 1e-5
    card = (tmp_path / "out/README.md").read_text()
    assert "equal outputs" in card
    assert (tmp_path / "out/head.safetensors").exists() is (kind != "text")


def run_card(folder, texts):
    """Runs the program of a model card where neither plugformer nor torch can be imported."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    head = "import sys\nsys.modules |= dict.fromkeys(['plugformer', 'torch', 'transformers'])\n"
    tail = f"\nimport json\nprint(json.dumps(answer({texts!r})))"
    done = subprocess.run(
        [sys.executable, "-c", head + code + tail], cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mixture", ["beam", "source as prefix"])
def test_the_card_has_a_program_that_needs_no_plugformer(exportable, tmp_path, mixture):
    trained = exportable(*MIXTURES[mixture])
    verified(trained, CTranslate2(), tmp_path / "out", examples=9)
    texts = ["March 5, 1996", "2001-02-03", "1 May 1984"]
    assert run_card(tmp_path / "out", texts) == [answer.output for answer in trained.predict(texts)]


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model.attention=mla", "model.attention: attention 'mla'"),
        ("model.feed_forward=moe", "model.feed_forward: feed_forward 'moe'"),
        ("model.residual=sandwich", "model.residual: residual 'sandwich'"),
        ("model.sublayers.more={feed_forward: relu}", "model.sublayers.more"),
        ("model.position=alibi", "model.position: position 'alibi' .* in an encoder"),
        ("model.decoder.cross_attention.position=rope", "in cross-attention"),
        ("decoding.name=sampling", "decoding: 'sampling'"),
        ("decoding.length=5", "decoding.length: 5 .a constraint"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(exportable, tmp_path, override, named):
    trained = exportable(override)
    with pytest.raises(UnsupportedExport, match=f"{named}.*has no counterpart in ctranslate2"):
        verified(trained, CTranslate2(), tmp_path / "out", examples=9)
    assert not list(tmp_path.iterdir())


def test_int8_is_measured_and_bounded_by_metrics(exportable, tmp_path):
    trained = exportable()
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    found = verified(trained, CTranslate2(compute_type="int8"), tmp_path / "out", examples=9)
    assert found.difference > 1e-4
    assert all(value.equal(before[name]) for name, value in trained.model.state_dict().items())
    assert "int8" in (tmp_path / "out/README.md").read_text()
