"""Settings under which no output can be right are named before a training."""

import pytest

from plugformer.data.preparation import prepare
from plugformer.evaluation.references import unreachable
from plugformer.runs.loading import load
from plugformer.training.train import train


@pytest.fixture(scope="module")
def split(trained):
    run = load(trained.directory)
    return prepare(run.experiment, run.processor).splits["validation"]


def notices(trained, split, *settings):
    """Returns what is said; by default outputs may have 20 tokens."""
    usual = [] if any("max_length" in setting for setting in settings) else ["decoding.max_length=20"]
    run = load(trained.directory, overrides=[*usual, *settings])
    return unreachable(run.predictor(), split, run.task)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["decoding.max_length=10"],
        ["decoding.length=10"],
        [r"decoding.pattern='\d{4}-\d{2}-\d{2}'"],
    ],
)
def test_nothing_is_said_of_settings_that_references_fit(trained, split, settings):
    assert notices(trained, split, *settings) == []


def test_nothing_is_said_if_more_than_half_fit(trained, split):
    references = [split.references(row)[0] for row in range(len(split))]
    most = "|".join(references[: len(references) // 2 + 1])
    assert notices(trained, split, f"decoding.pattern='{most}'") == []
    assert notices(trained, split, f"decoding.pattern='{references[0]}'") != []


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("decoding.max_length=5", "max_length"),
        ("decoding.length=9", "length"),
        ("decoding.length=source", "length"),
        ("decoding.pattern='[0-9]{4}'", "pattern"),
    ],
)
def test_settings_that_no_reference_fits(trained, split, setting, key):
    (notice,) = notices(trained, split, setting)
    count = min(len(split), 200)
    assert f"{count} of {count} references" in notice
    assert f"decoding.{key}=" in notice


def test_an_example_counts_by_its_best_reference(trained, split, monkeypatch):
    monkeypatch.setattr(split, "references", lambda row: ["2001-02-03", "the third of February"])
    assert notices(trained, split, "decoding.max_length=10") == []


def test_a_vocabulary_that_spells_no_reference_is_named_before_the_first_update(train_tiny, tmp_path):
    said = []
    tokenizer = "tokenizer={name: characters, min_frequency: 1000000}"
    train_tiny(tmp_path / "run", tokenizer, "training.steps=1", notify=said.append)
    (place,) = [number for number, notice in enumerate(said) if "tokens of references are unknown" in notice]
    assert place < next(number for number, notice in enumerate(said) if notice.startswith("evaluating"))


def test_columns_that_are_read_twice(registry, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n" + "".join(f"{number}\tn{number}\n" for number in range(20)))
    columns = {"source": "target", "target": "target"}
    data = {"name": "table", "files": {"train": str(file)}, "columns": columns, "split": {"validation": 5}}
    task = {"type": "sequence-to-sequence", "data": data, "tokenizer": "characters"}
    model = {"architecture": "encoder-decoder", "head": "language_model", "width": 8, "heads": 1, "layers": 1}
    said = []
    settings = {**task, "model": model, "training": {"steps": 1}}
    train(settings, out=tmp_path / "run", registry=registry, notify=said.append)
    assert sum("source and target are both read from 'target'" in notice for notice in said) == 1
