"""Modules of Hugging Face `evaluate` as metrics: here from a script, without the network."""

import hashlib
import sys

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, DataError
from plugformer.evaluation.evaluator import measure
from plugformer.validation import validate
from plugformer_plugins.metric.evaluate_module import Evaluate, load_script

SCRIPT = """
import evaluate
from datasets import Features, List, Value

calls = []


class Module(evaluate.Metric):
    def _info(self):
        features = {"predictions": FEATURE, "references": REFERENCES}
        return evaluate.MetricInfo(description="", citation="", features=Features(features))

    def _compute(self, predictions, references, power=1):
        return COMPUTED
"""
TEXT = "Value('string')"
SHARE = "{'share': sum(p in r for p, r in zip(predictions, references)) / len(predictions)}"


class Local(Evaluate):
    """A script in a folder, as the documentation advises to use one."""

    def __init__(self, *, folder, **options):
        super().__init__(metric="module", **options)
        self.folder = folder

    def load(self, cache):
        return load_script(self.folder / f"{self.folder.name}.py", cache)


@pytest.fixture
def module(tmp_path):
    """Writes a module, and returns its folder."""

    def write(computed=SHARE, feature=TEXT, references=f"List({TEXT})", name="module"):
        folder = tmp_path / name
        folder.mkdir()
        words = {"FEATURE": feature, "REFERENCES": references, "COMPUTED": computed}
        text = SCRIPT
        for word, value in words.items():
            text = text.replace(word, value)
        (folder / f"{name}.py").write_text(text)
        return folder

    return write


def test_the_value_and_its_interval(module):
    found = measure(Local(folder=module()), ["a", "b", "ü", "d"], [["a", "x"], ["b"], ["ü"], ["x", "y"]])[0]
    assert found["value"] == 0.75
    assert 0.0 <= found["low"] < 0.75 < found["high"] <= 1.0
    assert found["signature"].startswith("module|key:None|evaluate:")


@pytest.mark.parametrize(
    ("references", "wanted"), [(TEXT, "['a', 'b']"), (f"List({TEXT})", "[['a', 'x'], ['b', 'y']]")]
)
def test_one_reference_or_several_as_the_module_wants_them(module, references, wanted):
    metric = Local(folder=module(f"{{'same': int(references == {wanted})}}", references=references))
    assert metric.aggregate(metric.statistics(["a", "b"], [["a", "x"], ["b", "y"]])) == 1.0


def test_numbers_where_the_module_wants_them(module):
    computed = "{'error': sum(abs(p - r) ** power for p, r in zip(predictions, references))}"
    folder = module(computed, "Value('float32')", "Value('float32')")
    metric = Local(folder=folder, arguments={"power": 2}, higher_is_better=False)
    assert metric.aggregate(metric.statistics(["1.5", "2"], [["1"], ["4"]])) == pytest.approx(0.25 + 4)
    with pytest.raises(DataError, match="'red'"):
        metric.aggregate(metric.statistics(["red"], [["1"]]))


@pytest.mark.parametrize(
    ("computed", "key", "error", "words"),
    [
        ("{'a': 1.0, 'b': 2.0}", "c", ConfigurationError, "'c'.*'a' or 'b'"),
        ("{'a': 1.0, 'b': 2.0}", None, ConfigurationError, "None.*'a' or 'b'"),
        ("{}['a']", None, DataError, "KeyError: 'a'"),
    ],
)
def test_what_a_module_may_get_wrong(module, computed, key, error, words):
    metric = Local(folder=module(computed), key=key)
    with pytest.raises(error, match=words):
        metric.aggregate(metric.statistics(["a"], [["a"]]))


def test_the_figure_of_several(module):
    metric = Local(folder=module("{'a': 1.0, 'b': 2.0, 'each': [3.0]}"), key="b")
    assert metric.aggregate(metric.statistics(["a"], [["a"]])) == 2.0


@pytest.mark.parametrize("metric", ["someone/metric", "./nowhere", "../evil", "/evil", "evil.py", "~", ""])
def test_only_names_are_accepted(metric):
    with pytest.raises(ConfigurationError, match=r"evaluation\.metrics\.1: "):
        validate(
            resolve("dates", [f"evaluation.metrics=[exact_match, {{name: evaluate, metric: '{metric}'}}]"])
        )


EVIL = "raise SystemExit('executed')"


def score_of(metric):
    return metric.aggregate(metric.statistics(["a", "b"], [["a"], ["c"]]))


@pytest.mark.parametrize("place", ["evil", "evaluate-metric/evil"])
def test_a_name_means_the_hub_whatever_lies_here(place, tmp_path, monkeypatch):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="cannot load evil"):
        score_of(Evaluate(metric="evil"))


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Puts scripts of the metric `mine` into an otherwise empty cache of the Hub; returns their folder."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("PLUGFORMER_TRUST_REMOTE_CODE", raising=False)
    repository = tmp_path / "hub" / "spaces--evaluate-metric--mine"

    def write(**scripts):
        (repository / "refs").mkdir(parents=True, exist_ok=True)
        (repository / "refs" / "main").write_text("c" * 40)
        folder = repository / "snapshots" / ("c" * 40)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in scripts.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    return write


def test_code_of_a_cache_is_executed_only_if_it_is_trusted(cached, module, monkeypatch):
    script = (module() / "module.py").read_text()
    folder = cached(mine=f"from .part import one\n{script}", part="one = 1", app=EVIL)
    digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("mine.py", "part.py")]

    monkeypatch.setenv("PLUGFORMER_TRUST_REMOTE_CODE", digests[0])
    with pytest.raises(ConfigurationError, match=f"{digests[1]}  {folder / 'part.py'}"):
        score_of(Evaluate(metric="mine"))
    monkeypatch.setenv("PLUGFORMER_TRUST_REMOTE_CODE", ",".join(digests))
    assert score_of(Evaluate(metric="mine")) == 0.5
    cached(part="import canary")
    with pytest.raises(ConfigurationError, match=hashlib.sha256(b"import canary").hexdigest()):
        score_of(Evaluate(metric="mine"))


def test_nothing_of_a_prepared_cache_of_modules_is_imported(tmp_path, module, monkeypatch):
    monkeypatch.setattr("evaluate.config.HF_MODULES_CACHE", tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    script = tmp_path / "evaluate_modules/metrics/evaluate-metric--rouge" / ("a" * 64) / "rouge.py"
    script.parent.mkdir(parents=True)
    for folder in list(script.parents)[:4]:
        (folder / "__init__.py").write_text(EVIL)
    script.write_text(EVIL)
    (tmp_path / "rouge_score.py").write_text(EVIL)
    with pytest.raises(DataError, match="cannot load rouge"):
        score_of(Evaluate(metric="rouge"))
    assert score_of(Local(folder=module())) == 0.5
    assert str(tmp_path) not in sys.path
