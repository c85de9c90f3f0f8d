"""Training from a task to a report: splits, refusals, and what is left where nothing was begun."""

import json

import pytest

from plugformer.errors import ConfigurationError, DataError
from plugformer.hooks import hookimpl
from plugformer.training.train import resume, train

DATA = '''
from datasets import Dataset, DatasetDict
from plugformer.interfaces.data import Data


class Few(Data):
    """Two examples in each split that is named."""

    def __init__(self, *, splits: tuple[str, ...]):
        self.splits = splits

    def load(self, task_type):
        rows = Dataset.from_dict({"source": ["ab", "b"], "target": ["b", "ab"]})
        return DatasetDict({name: rows for name in self.splits})
'''
TASK = """\
type: sequence-to-sequence
registry: registry.yaml
data: {name: few, splits: [train, validation]}
tokenizer: characters
model: {architecture: encoder-decoder, width: 16, heads: 2, layers: 1, ffn_width: 16, head: language_model}
training: {steps: 2}
decoding: {max_length: 4}
evaluation: {metrics: [exact_match]}
"""


@pytest.fixture
def task(tmp_path):
    module = f"few_of_{tmp_path.name}"  # of one name, a process can import only one
    (tmp_path / f"{module}.py").write_text(DATA)
    (tmp_path / "registry.yaml").write_text(f"components: {{data: {{few: {{class: '{module}:Few'}}}}}}")
    (tmp_path / "task.yaml").write_text(TASK)
    return tmp_path / "task.yaml"


@pytest.mark.parametrize(
    ("splits", "reported"),
    [
        ("[train, validation]", ["validation"]),
        ("[train, validation, test]", ["test"]),
        ("[train, validation, test_b, test_a]", ["test_a", "test_b"]),
    ],
)
def test_every_test_split_is_reported(task, tmp_path, splits, reported):
    overrides = [f"data.splits={splits}"]
    trained = train(str(task), overrides=overrides, out=tmp_path / "run", notify=str)
    report = trained.report
    assert [report.split, *(other.split for other in report.others)] == reported
    assert report.examples == 2
    assert trained.registry.arguments == f" --registry {task.parent / 'registry.yaml'}"


class Full:
    @hookimpl
    def run_started(self, run):
        run.model.forward = self.fail

    def fail(self, batch):
        raise MemoryError


def test_nothing_is_left_of_a_training_that_has_not_begun(task, tmp_path):
    with pytest.raises(ConfigurationError, match=r"model\.attention"):
        train(str(task), overrides=["model.attention=gqaa"], out=tmp_path / "run", notify=str)
    with pytest.raises(DataError, match="no split 'validation'"):
        train(str(task), overrides=["data.splits=[train]"], out=tmp_path / "run", notify=str)
    with pytest.raises(MemoryError):  # before anything is saved
        train(str(task), out=tmp_path / "run", notify=str, callbacks=[Full()])
    assert not (tmp_path / "run").exists()


def test_a_run_has_a_name_of_its_own(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = train(str(task), notify=str).report
    assert report.run.parent.name == "runs"
    assert report.run.name.startswith(f"{tmp_path.name}-")  # files are often called task.yaml
    assert (report.run / "model.safetensors").exists()


def test_a_training_that_settings_are_chosen_by_never_measures_the_test_split(registry, tmp_path):
    report = train(
        "dates",
        overrides=["data.size=60", "training.steps=2", "model.width=16", "decoding.max_length=4"],
        out=tmp_path / "run",
        registry=registry,
        notify=str,
        final="validation",
    ).report
    assert (report.split, report.others) == ("validation", [])
    assert list(json.loads((tmp_path / "run/evaluation.json").read_text())) == ["validation"]
    resumed = resume(tmp_path / "run", registry=registry, notify=str, final="validation")
    assert resumed.report.split == "validation"
