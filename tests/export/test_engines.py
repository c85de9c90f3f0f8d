"""Engines in place of the model: the same answers, compared once, kept, and the fastest of them."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch
from tests.export.copies import Copied, Copy
from tests.export.test_ctranslate2 import SLOWLY

from plugformer import load
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import Hypothesis
from plugformer_export import kept as keeping
from plugformer_export.ctranslate2 import CTranslate2
from plugformer_export.ctranslate2.engine import Translator
from plugformer_export.engine import ExportError, UnsupportedExport
from plugformer_export.onnx import ONNX
from plugformer_export.verification import verified

BEAM = (*SLOWLY, "decoding.name=beam", "decoding.size=3", "decoding.max_length=30")
SEARCHES = {
    "beam": BEAM,
    "greedy": (),
    "alone": ("model.architecture=decoder-only", "model.embeddings.shared=false", "model.max_length=80"),
}
QUESTIONS = ["March 5, 1996", "7/4/76", "2001-02-03", ""]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "engines"


def answers(trained, n_best=1):
    found = trained.predict(QUESTIONS, n_best=n_best)
    return [
        [(one.output, pytest.approx(one.score, abs=1e-3)) for one in (each, *each.alternatives)]
        for each in found
    ]


@pytest.mark.parametrize(
    ("engine", "search"),
    [("ctranslate2", "beam"), ("onnxruntime", "beam"), ("ctranslate2", "greedy"), ("ctranslate2", "alone")],
)
def test_an_engine_answers_as_the_model(exportable, registry, cache, engine, search):
    ours = exportable(*SEARCHES[search])
    fast = load(ours.directory, registry, engine=engine)
    assert type(fast.predictor()) is not type(ours.predictor()) or fast.predictor().model is not fast.model
    for n_best in (1, 2) if search == "beam" else (1,):
        assert answers(fast, n_best) == answers(ours, n_best)
    if search != "beam":
        with pytest.raises(ConfigurationError, match="2 outputs are asked for"):
            fast.predict(QUESTIONS, n_best=2)
    assert fast.evaluate("validation").metrics == ours.evaluate("validation").metrics


LIMITED = {
    "continuations": (
        "shakespeare",
        (
            *("model.max_length=64", "model.position=learned"),
            *("decoding.name=greedy", "decoding.max_length=source+40"),
        ),
        ["I see", "I see 2 red cats.", "I see 2 red cats. " * 3, ("I see 2 red cats. " * 4)[:63], "I"],
    ),
    "translations": (
        "dates",
        ("decoding.name=greedy", "decoding.max_length=source+0"),
        ["5 May 1996", "1", "Wednesday 17 September 2021"],
    ),
}


@pytest.mark.parametrize(("target", "ask"), [(CTranslate2(), "answer"), (ONNX(), "generate")])
@pytest.mark.parametrize("kind", LIMITED)
def test_programs_limit_each_output_by_its_own_input(
    exportable, sample_data, monkeypatch, tmp_path, kind, target, ask
):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    task, overrides, texts = LIMITED[kind]
    trained = exportable(*overrides, task=task)
    verified(trained, target, tmp_path / "out", examples=4)
    (code,) = re.findall(r"```python\n(.*?)```", target.usage(trained), re.DOTALL)
    code += f"\nimport json\nprint(json.dumps([{ask}({texts}), [{ask}([text])[0] for text in {texts}]]))"
    (tmp_path / "out/program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path / "out", capture_output=True, check=True
    )
    answers = [answer.output for answer in trained.predict(texts)]
    assert len({*map(len, answers)}) > 1
    assert json.loads(done.stdout.splitlines()[-1]) == [answers, answers]


def test_ctranslate2_leaves_a_full_prompt_to_the_model(exportable, registry, sample_data, monkeypatch, cache):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    task, overrides, texts = LIMITED["continuations"]
    ours = exportable(*overrides, task=task)
    fast = load(ours.directory, registry, engine="ctranslate2")
    assert [each.output for each in fast.predict(texts)] == [each.output for each in ours.predict(texts)]


def test_inputs_are_not_spelled_again_for_every_output(exportable, registry, cache, monkeypatch):
    fast = load(exportable().directory, registry, engine="ctranslate2")
    spell, spelled = Translator._spell, []

    def counting(self, row, side):
        spelled.append(side)
        return spell(self, row, side)

    monkeypatch.setattr(Translator, "_spell", counting)
    fast.predict(QUESTIONS[:3] * 4)
    assert 12 <= spelled.count(0) <= 24  # once to search, and once more for an output whose score is computed


def test_options_of_an_engine_are_those_of_its_component(exportable, registry, cache):
    said = []
    int8 = load(
        exportable().directory,
        registry,
        engine={"name": "ctranslate2", "compute_type": "int8"},
        notify=said.append,
    )
    assert len(int8.predict(QUESTIONS)) == 4
    assert "ctranslate2, int8" in "\n".join(said)
    with pytest.raises(ConfigurationError, match="int9"):
        load(exportable().directory, registry, engine={"name": "ctranslate2", "compute_type": "int9"})


@pytest.mark.parametrize("named", ["", 5, ["ctranslate2"], {"compute_type": "int8"}, {"name": 3}])
def test_an_engine_without_a_name_is_refused(exportable, registry, named):
    with pytest.raises(PlugformerError, match="engine"):
        load(exportable().directory, registry, engine=named)


def made(cache):
    return sorted(folder.name for folder in cache.glob("[!s]*"))  # not "scratch-", a hash has digits to f


def test_a_run_is_compared_once_and_again_when_it_has_changed(exportable, registry, cache, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(exportable().directory, run)
    said = []
    for _ in range(2):
        load(run, registry, engine="ctranslate2", notify=said.append)
    assert sum("comparing" in line for line in said) == 1
    assert len(made(cache)) == 1
    load(run, registry, engine="ctranslate2", overrides=["decoding.max_length=5"])
    assert len(made(cache)) == 2  # other settings of the search are other answers
    load(run, registry, engine="ctranslate2", overrides=["data.size=300"])
    assert len(made(cache)) == 3  # other examples say something else
    record = json.loads(next(cache.glob(f"*/{keeping.RECORD}")).read_text())
    assert record["equal"] == record["examples"]
    assert len(record["seconds"]) == 2


def test_of_two_processes_the_first_export_stays(exportable, registry, cache, monkeypatch):
    def overtaken(trained, engine, out, notify):
        found = compare(trained, engine, out, notify=notify)
        shutil.copytree(out, cache / out.name)
        return found

    compare = keeping.verified
    monkeypatch.setattr(keeping, "verified", overtaken)
    assert len(load(exportable().directory, registry, engine="ctranslate2").predict(QUESTIONS)) == 4


def test_changed_code_of_an_engine_is_compared_again(exportable, registry, cache, monkeypatch):
    said, hashed = [], set()
    for code in ("before", "after"):
        monkeypatch.setattr(keeping, "code_hash", lambda _, *names, code=code: hashed.update(names) or code)
        load(exportable().directory, registry, engine="ctranslate2", notify=said.append)
    assert sum("comparing" in line for line in said) == 2
    assert hashed == {"plugformer", "plugformer_blocks", "plugformer_export", "plugformer_export.ctranslate2"}


def test_engines_of_the_processor_are_refused_on_another_device(exportable, registry, cache, monkeypatch):
    trained = exportable()
    monkeypatch.setattr(type(trained), "device", torch.device("cuda"))
    with pytest.raises(ConfigurationError, match="cuda"):
        Copy().answering(trained, lambda _: None)


def test_what_a_run_brings_is_not_used(exportable, registry, cache, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(exportable().directory, run)
    load(run, registry, engine="ctranslate2")
    shutil.copytree(cache, run / "engines")
    shutil.rmtree(cache)
    said = []
    load(run, registry, engine="ctranslate2", notify=said.append)
    assert any("comparing" in line for line in said)


def test_another_answer_is_refused(exportable, cache):
    with pytest.raises(ExportError, match="scores differ"):
        Copy(noise=0.01).answering(exportable(), lambda _: None)


def test_a_wrong_score_of_a_right_answer_is_refused(exportable, cache, monkeypatch):
    right = Copied.outputs

    def half(self, *given):
        return [[Hypothesis(each.tokens, each.score / 2) for each in row] for row in right(self, *given)]

    monkeypatch.setattr(Copied, "outputs", half)
    with pytest.raises(ExportError, match="the score of its output"):
        Copy().answering(exportable(), lambda _: None)


def test_a_run_in_16_bits_is_said_to_be_compared_in_32(exportable, registry, cache):
    said = []
    load(exportable("training.precision=bf16").directory, registry, engine="ctranslate2", notify=said.append)
    assert "bf16" in "\n".join(said)


def test_a_metric_of_choices_is_not_computed_without_them(exportable, registry, cache):
    with pytest.raises(UnsupportedExport, match=r"evaluation\.metrics: 'token_accuracy'"):
        exact = ["evaluation.metrics=[exact_match, token_accuracy]"]
        load(exportable().directory, registry, engine="ctranslate2", overrides=exact)


def seconds(own, other):
    return lambda folder: (own, other)


@pytest.mark.parametrize(("times", "chosen"), [((4.0, 1.0), "ctranslate2"), ((1.0, 4.0), "torch")])
def test_auto_takes_the_fastest(exportable, registry, cache, monkeypatch, times, chosen):
    monkeypatch.setattr("plugformer_export.kept.seconds", seconds(*times))
    monkeypatch.setattr("plugformer_export.onnx.format.ONNX.automatic", False)
    said = []
    fast = load(exportable().directory, registry, engine="auto", notify=said.append)
    assert f"engine {chosen} answers" in said[-1]
    assert answers(fast) == answers(exportable())


def test_auto_survives_an_engine_that_fails(exportable, registry, cache, monkeypatch):
    def broken(self, trained, folder):
        raise RuntimeError("INVALID_GRAPH")

    monkeypatch.setattr("plugformer_export.onnx.format.ONNX.load", broken)
    monkeypatch.setattr("plugformer_export.ctranslate2.format.CTranslate2.load", broken)
    said = []
    assert answers(load(exportable().directory, registry, engine="auto", notify=said.append))
    assert "INVALID_GRAPH" in "\n".join(said)
