"""`training.compile`: the same training by compiled layers, compiled once."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.training.interrupted import logged

from plugformer.configuration.task import TrainingSettings
from plugformer.errors import ConfigurationError
from plugformer.training.strategy import compile_model, compiler_errors_explained, compiles

PROGRAM = Path(__file__).with_name("compiled.py")
COMPILER = shutil.which(os.environ.get("CXX", "g++"))


def compiled(folder, settings):
    """Trains in a process of its own."""
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *settings],
        env={**os.environ, "JAXTYPING_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def losses(directory):
    return [each["loss"] for each in logged(directory, "training")]


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_compiled_layers_train_as_others_do(tmp_path, train_tiny, short_settings):
    settings = ("model.layers=2", "model.dropout=0.0", "training.steps=2")
    compiling = ("training.gradient_checkpointing=true", "training.compile=true")
    whole = compiled(tmp_path / "compiled", short_settings(*settings, *compiling))
    assert whole["graphs"][0][0] >= 2  # of an encoder layer and of a decoder layer, whatever their number
    assert whole["graphs"][-1][0] <= 4  # of each for two shapes
    assert {breaks for _, breaks in whole["graphs"]} == {0}
    assert sum("training.compile: the first updates" in notice for notice in whole["notices"]) == 1

    train_tiny(tmp_path / "plain", *settings)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)


def test_layers_are_compiled_for_training_alone_and_stay_what_they_are(tiny_model, sentences, monkeypatch):
    traced = []

    def identity(compute, **_):
        return lambda one, *inputs: traced.append(one) or compute(one, *inputs)

    monkeypatch.setattr(torch, "compile", identity)
    plain, model = tiny_model("model.layers=2"), tiny_model("model.layers=2")
    compile_model(model, torch.device("cpu"))
    assert list(model.state_dict()) == list(plain.state_dict())
    model.eval().encoder(sentences())
    assert traced == []
    model.train().encoder(sentences())
    assert traced == list(model.encoder.layers)


def test_an_error_of_the_compiler_names_the_setting():
    from torch._dynamo.exc import InternalTorchDynamoError

    with pytest.raises(ConfigurationError, match=r"training\.compile=false"), compiler_errors_explained():
        raise InternalTorchDynamoError("no compiler")


@pytest.mark.parametrize(
    ("setting", "device", "steps", "expected"),
    [
        (True, "cpu", 1, True),
        (False, "cuda", 10**6, False),
        ("auto", "cpu", 10**6, False),
        ("auto", "cuda", 10, False),
        ("auto", "cuda", 10**6, True),
    ],
)
def test_what_is_compiled(setting, device, steps, expected):
    assert compiles(TrainingSettings(compile=setting), torch.device(device), steps) is expected


@pytest.mark.long
def test_no_part_breaks_a_graph():
    program = Path(__file__).with_name("graph_breaks.py")
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) >= 28 + 8  # as many as pairs of attentions and positions, and heads


@pytest.mark.parametrize("automatic", [True, False])
def test_what_cannot_be_compiled_runs_uncompiled_unless_somebody_has_asked(tiny_model, sentences, automatic):
    def broken(*_):
        raise ValueError("no compiler")

    model = tiny_model().train()
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", partial(torch.compile, backend=broken))
        compile_model(model, torch.device("cpu"), automatic=automatic)
    if automatic:
        assert torch.isfinite(model.encoder(sentences()).hidden).all()
    else:
        with pytest.raises(ConfigurationError, match=r"training\.compile=false"), compiler_errors_explained():
            model.encoder(sentences())
