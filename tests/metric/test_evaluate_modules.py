"""Modules of Hugging Face `evaluate` as metrics: here from a script, without the network."""

import evaluate
import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, DataError
from plugformer.evaluation.evaluator import measure
from plugformer.validation import validate
from plugformer_plugins.metric.evaluate_module import Evaluate

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
        return evaluate.load(str(self.folder), cache_dir=str(cache), keep_in_memory=True)


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


@pytest.mark.parametrize("place", ["evil", "evaluate-metric/evil"])
def test_a_name_means_the_hub_whatever_lies_here(place, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "evaluate.loading.HubEvaluationModuleFactory.__init__", lambda self, name, **_: asked.append(name)
    )
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "evil.py").write_text("raise SystemExit('executed')")
    monkeypatch.chdir(tmp_path)
    metric = Evaluate(metric="evil")
    with pytest.raises((ConfigurationError, DataError), match="evil"):
        metric.aggregate(metric.statistics(["a"], [["a"]]))
    assert asked == ([] if "/" in place else ["evaluate-metric/evil"])
