"""Modules of Hugging Face `evaluate` as metrics: from a folder, without the network."""

import json
import shutil

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, DataError
from plugformer.evaluation import measure
from plugformer.runs.lock import make_lock
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
    found = measure(
        Evaluate(metric=module()), ["a", "b", "ü", "d"], [["a", "x"], ["b"], ["ü"], ["x", "y"]]
    ).score
    assert found["value"] == 0.75
    assert 0.0 <= found["low"] < 0.75 < found["high"] <= 1.0
    assert found["signature"].startswith("module|key:None|evaluate:")


def test_so_many_resamples_are_scored(module):
    class Counted(Evaluate):
        count = 0

        def aggregate(self, statistics):
            self.count += 1
            return super().aggregate(statistics)

    metric = Counted(metric=module(), resamples=7)
    metric.interval(metric.statistics(["a", "b", "c"], [["a"], ["b"], ["x"]]))
    assert 7 <= metric.count <= 9  # with those of the whole set, ours and scipy's


@pytest.mark.parametrize(
    ("references", "wanted"), [(TEXT, "['a', 'b']"), (f"List({TEXT})", "[['a', 'x'], ['b', 'y']]")]
)
def test_one_reference_or_several_as_the_module_wants_them(module, references, wanted):
    metric = Evaluate(metric=module(f"{{'same': int(references == {wanted})}}", references=references))
    assert metric.aggregate(metric.statistics(["a", "b"], [["a", "x"], ["b", "y"]])) == 1.0


def test_numbers_where_the_module_wants_them(module):
    computed = "{'error': sum(abs(p - r) ** power for p, r in zip(predictions, references))}"
    folder = module(computed, "Value('float32')", "Value('float32')")
    metric = Evaluate(metric=folder, arguments={"power": 2}, higher_is_better=False)
    assert metric.aggregate(metric.statistics(["1.5", "2"], [["1"], ["4"]])) == pytest.approx(0.25 + 4)
    with pytest.raises(
        DataError, match=r"wants predictions of the type float32: .*'red'.*answers with numbers"
    ):
        metric.aggregate(metric.statistics(["red"], [["1"]]))


@pytest.mark.parametrize(
    ("computed", "key", "error", "words"),
    [
        ("{'a': 1.0, 'b': 2.0}", "c", ConfigurationError, "key 'c' is none of the figures of .*'a' or 'b'"),
        ("{'a': 1.0, 'b': 2.0}", None, ConfigurationError, "key None is none of the figures of .*'a' or 'b'"),
        ("{'a': float('nan')}", None, DataError, "gives nan, which is not finite"),
        ("{}['a']", None, DataError, "fails: KeyError: 'a'"),
    ],
)
def test_what_a_module_may_get_wrong(module, computed, key, error, words):
    metric = Evaluate(metric=module(computed), key=key)
    with pytest.raises(error, match=words):
        metric.aggregate(metric.statistics(["a"], [["a"]]))


def test_the_figure_of_several(module):
    metric = Evaluate(metric=module("{'a': 1.0, 'b': 2.0, 'each': [3.0]}"), key="b")
    assert metric.aggregate(metric.statistics(["a"], [["a"]])) == 2.0


def test_nothing_in_a_run_is_executed(module, trained, run_copy):
    folder = shutil.copytree(module(), run_copy / "module")
    with pytest.raises(ConfigurationError, match=r"lies in the run .*, and nothing in a run is executed"):
        Evaluate(metric=folder)
    (run_copy.parent / "link").symlink_to(folder)
    with pytest.raises(ConfigurationError, match=r"has no script link\.py|lies in the run"):
        Evaluate(metric=run_copy.parent / "link")


@pytest.mark.parametrize("metric", ["someone/metric", "./nowhere"])
def test_other_names_with_a_slash_are_folders(metric):
    with pytest.raises(
        ConfigurationError, match=r"evaluation\.metrics\.1: .*has no script (metric|nowhere)\.py"
    ):
        validate(
            resolve("dates", [f"evaluation.metrics=[exact_match, {{name: evaluate, metric: {metric}}}]"])
        )


def test_in_a_task(module, tmp_path, train_tiny):
    folder = module()
    (tmp_path / "task.yaml").write_text(
        "extends: dates\nevaluation: {metrics: [{name: evaluate, metric: ./module, as: share}]}\n"
        "training: {monitor: share}\n"
    )
    resolved = validate(resolve(str(tmp_path / "task.yaml")))
    assert resolved.task.evaluation.metrics[0].options["metric"] == str(folder)
    before = make_lock(resolved.task, resolved.registry, {})["scripts"]
    assert before.keys() == {"share"}
    (folder / "helper.py").write_text("")
    (folder / "module.py").write_text((folder / "module.py").read_text() + "# other\n")
    assert make_lock(resolved.task, resolved.registry, {})["scripts"] != before
    metrics = f"evaluation.metrics=[{{name: evaluate, metric: {folder}, resamples: 5, as: share}}]"
    report = train_tiny(tmp_path / "run", metrics, "training.steps=1", "data.size=40")
    assert report.metrics["share"]["value"] == 0.0
    assert "scripts" in json.loads((tmp_path / "run/lock.json").read_text())
