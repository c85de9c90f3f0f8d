"""ONNX Runtime computes what the model does, whatever its parts."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from plugformer.errors import NotExportableError
from plugformer_export import tokenizer_files
from plugformer_export.engine import ExportError, UnsupportedExport
from plugformer_export.onnx import ONNX
from plugformer_export.onnx.format import programs
from plugformer_export.verification import verified
from plugformer_plugins.feed_forward.networks import GELU
from plugformer_plugins.position.t5 import T5

GALLERY = Path(__file__).resolve().parents[2] / "examples" / "gallery"
LEARNED_BIASES = (
    *("model.position=t5", "model.encoder.attention=mha", "model.decoder.attention=gqa"),
    *("model.decoder.cross_attention.attention=mla", "model.decoder.cross_attention.position=t5"),
)
RUNS = {
    "encoder-decoder": (
        "dates",
        (
            *("model.position=alibi", "model.feed_forward=moe", "decoding.name=beam", "decoding.size=3"),
            "model.decoder.attention={name: sliding_window, window: 2}",
            "model.decoder.cross_attention.position=rope",
        ),
        ["encoder.onnx", "decoder_step.onnx"],
    ),
    "prefix": (
        "dates",
        (
            *("model.architecture=prefix", "model.embeddings.shared=false", "model.max_length=50"),
            *("model.position=t5", "model.attention=mla"),
        ),
        ["decoder_begin.onnx", "decoder_step.onnx"],
    ),
    "classes, with parts of a plugin": (
        "ag-news",
        ("model.attention=talking_heads", "model.position=yarn", "model.residual=stochastic_depth"),
        ["model.onnx"],
    ),
    "learned biases": ("dates", LEARNED_BIASES, ["encoder.onnx", "decoder_step.onnx"]),
    "two texts, with segments": ("sick-entailment", ("model.position=normalized",), ["model.onnx"]),
}


@pytest.fixture
def gallery(registry, monkeypatch, sample_data):
    """The registry with the gallery, as if it were installed."""
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    monkeypatch.syspath_prepend(GALLERY)
    return registry.with_local(GALLERY / "plugformer_gallery" / "registry.yaml")


@pytest.mark.parametrize("run", RUNS)
def test_exports_are_verified_and_run_without_plugformer(exportable, gallery, tmp_path, run):
    task, overrides, files = RUNS[run]
    trained = exportable(*overrides, task=task, registry=gallery)
    target, out = ONNX(), tmp_path / "out"
    trained.model.train()  # as a training loop leaves it: no dropout is exported
    found = verified(trained, target, out, examples=12)
    assert found.difference < 1e-4
    assert found.equal + found.ties == found.examples
    assert {file.name for file in out.iterdir()} >= {*files, "config.json"}
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["opset"] == 20
    (code,) = re.findall(r"```python\n(.*?)```", target.usage(trained), re.DOTALL)
    texts = ["a text", "another one, which is longer"]
    ask = f"generate({texts})" if len(files) > 1 else f"scores({texts}).argmax(1).tolist()"
    alone = f"import sys\nprint(json.dumps({ask}))\nassert not {{'torch', 'plugformer'}} & {{*sys.modules}}\n"
    (out / "program.py").write_text(code + alone, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=out, capture_output=True, text=True, check=False, env={}
    )
    assert not done.returncode, done.stderr
    answers = json.loads(done.stdout)
    if len(files) == 1:
        answers = [config["classes"][number] for number in answers]
    if run not in (
        "encoder-decoder",
        "two texts, with segments",
    ):  # the program searches greedily, reads one text
        assert answers == [answer.output for answer in trained.predict(texts)]


def test_a_learned_bias_of_a_plugin_can_be_exported(exportable, tmp_path, monkeypatch):
    trained = exportable(*LEARNED_BIASES)

    def looked_up(self, query, key):
        distance = (key.index[:, None, :] - query.index[:, :, None]).abs().clamp(max=len(self.table) - 1)
        return self.table[distance].permute(0, 3, 1, 2)

    monkeypatch.setattr(T5, "bias", looked_up)
    found = verified(trained, ONNX(), tmp_path / "out", examples=4)
    assert found.difference < 1e-4


def test_what_the_converter_lacks_is_told_in_one_line(exportable, tmp_path, monkeypatch):
    forward = GELU.forward
    trained = exportable()
    monkeypatch.setattr(
        GELU, "forward", lambda self, x, context: forward(self, torch.special.bessel_j0(x), context)
    )
    with pytest.raises(ExportError) as caught:
        verified(trained, ONNX(), tmp_path / "out", examples=4)
    message = str(caught.value)
    assert "bessel_j0" in message
    assert not any(text in message for text in ("\n", "\x1b", "issue"))
    assert not list(tmp_path.iterdir())


def test_a_part_that_cannot_be_traced_is_refused_by_name(exportable, tmp_path, monkeypatch):
    forward = GELU.forward

    def counted(self, x, context):
        return forward(self, x[:, : int((x.sum(dim=(0, 2)) > -1e9).sum())], context)

    trained = exportable()
    assert any(isinstance(module, GELU) for module in trained.model.modules())
    monkeypatch.setattr(GELU, "forward", counted)
    with pytest.raises(UnsupportedExport, match="feed_forward 'gelu'"):
        verified(trained, ONNX(), tmp_path / "out", examples=4)
    assert not list(tmp_path.iterdir())


def test_a_part_can_say_that_it_cannot_be_exported(exportable, tmp_path, monkeypatch):
    def refusing(self, x, context):
        raise NotExportableError("it asks a person")

    trained = exportable()
    monkeypatch.setattr(GELU, "forward", refusing)
    with pytest.raises(UnsupportedExport, match=r"feed_forward 'gelu'.*it asks a person"):
        verified(trained, ONNX(), tmp_path / "out", examples=4)


def test_texts_are_read_where_no_input_is_required(exportable, sample_data, monkeypatch):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    trained = exportable("training.batch_tokens=null", task="multi30k-retrieval")
    assert len(programs(trained)["model"].arguments) == 2


def test_a_tokenizer_that_its_file_does_not_describe_is_refused(exportable, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_files, "is_enough", lambda tokenizer: tokenizer.size == 0)
    with pytest.raises(UnsupportedExport, match=r"tokenizer \(shared\)"):
        verified(exportable(), ONNX(), tmp_path / "out", examples=4)
