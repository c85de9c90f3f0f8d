"""Every bundled task trains, evaluates and answers, on small files in the place of its data."""

import re
from collections import Counter
from pathlib import Path

import pytest

from plugformer.configuration import resolve
from plugformer.data import prepare
from plugformer.registry import Registry
from plugformer.runs.loading import load
from plugformer.training.stream import epochs_of
from plugformer.training.train import train
from plugformer.validation import validate

TASKS = [task.name for task in Registry.discover().entries("task")]
SMALL = (
    "model.width=16",
    "model.heads=4",
    "model.layers=1",
    "model.ffn_width=16",
    "training.steps=2",
    "training.evaluate_every=2",
    "evaluation.samples=1",
)
FEWER = {
    "brackets": ["data.size=60", "data.held_out=5"],
    "copying": ["data.size=60", "data.held_out=5"],
    "couplets": ["data.split={validation: 4}"],
    "dates": ["data.size=60"],
    "names": ["data.size=60", "data.held_out=5"],
    "tatoeba-en-fr": ["data.split={validation: 4, test: 4, by: group}", "tokenizer.source.size=300"],
    "tatoeba-zh-en": ["data.split={validation: 4, test: 4, by: group}"],
}
WITHOUT_TEST = ("shakespeare",)
OF_TWO_TEXTS = ("sick-entailment", "sick-relatedness", "sick-similarity")
AMONG_OTHERS = ("multi30k-retrieval",)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_runs_from_its_data_to_an_answer(
    name: str, sample_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    batch = "training.batch_size=8" if name in AMONG_OTHERS else "training.batch_tokens=256"
    report = train(
        name, overrides=[*SMALL, batch, *FEWER.get(name, [])], out=tmp_path / "run", notify=str
    ).report
    assert report.split == "validation" if name in WITHOUT_TEST else report.split.startswith("test")
    assert report.metrics
    model, question = load(tmp_path / "run"), "3 5\t5 3" if name in OF_TWO_TEXTS else "3 5"
    if name in AMONG_OTHERS:
        assert model.vectors([question]).shape == (1, 16)
    else:
        assert model.predict([question])[0].output is not None


@pytest.mark.parametrize("name", TASKS)
def test_batches_of_a_task_have_at_most_twelve_shapes(
    name: str, sample_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    batch = [] if name in AMONG_OTHERS else ["training.batch_tokens=256"]
    resolved = resolve(name, [*batch, *FEWER.get(name, [])])
    epochs = epochs_of(resolved.task.training, prepare(validate(resolved)))
    assert epochs is not None
    found = [Counter((len(batch.rows), *batch.lengths) for batch in epochs(number)) for number in (0, 1)]
    assert found[0] == found[1]
    assert 1 <= len(found[0]) <= 12


@pytest.mark.parametrize("name", TASKS)
def test_a_task_names_its_command_and_its_result(name: str, registry: Registry) -> None:
    file = registry.find_task(name)
    assert file.read_text(encoding="utf-8").startswith(f"# plugformer train {name}\n")
    readme = (file.parent / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^Command: `[^`]*plugformer train {name}\b", readme, re.MULTILINE)
    results = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    assert f"`plugformer train {name}" in results
