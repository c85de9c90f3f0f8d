"""A run that is used in another way than its task says: decoded otherwise, measured otherwise."""

import re

import pytest

from plugformer.errors import ConfigurationError
from plugformer.runs.loading import load

TEXTS = ["May 1, 2001", "garbage !!", "1/2/99"]


def test_a_run_is_decoded_otherwise(trained):
    beam = load(trained.directory, overrides=["decoding.size=3", "decoding.name=beam"])
    assert beam.task.decoding.name == "beam"
    assert beam.task.decoding.options == {"size": 3, "length_penalty": 1.0}
    assert beam.task.decoding.max_length == load(trained.directory).task.decoding.max_length
    assert len(beam.predict(TEXTS, n_best=3)[0].alternatives) == 2


@pytest.mark.parametrize(
    "overrides", ["decoding.name=beam", {"decoding": "beam"}, [{"decoding": {"name": "beam"}}]]
)
def test_overrides_are_text_a_dictionary_or_a_list(trained, overrides):
    assert load(trained.directory, overrides=overrides).task.decoding.name == "beam"
    with pytest.raises(ConfigurationError, match=r"overrides  model\.width: cannot be changed here"):
        load(trained.directory, overrides={"model": {"width": 8}})


def test_a_run_is_constrained_afterwards(trained):
    settings = ["decoding.pattern='[0-9]{2}-[0-9]'", "decoding.max_length=4"]
    answers = load(trained.directory, overrides=settings).predict(TEXTS)
    assert [bool(re.fullmatch("[0-9]{2}-[0-9]", answer.output)) for answer in answers] == [True] * 3


def test_other_metrics_whatever_the_training_watched(train_tiny, tmp_path):
    run = train_tiny(tmp_path / "run", "training.monitor=exact_match").run
    report = load(run, overrides=["evaluation.metrics=[token_accuracy]"]).evaluate("validation")
    assert "exact_match" not in report.as_json()["metrics"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "model.width=8",
            r"^--set model.width=8  model.width: cannot be changed here, only data.* or decoding.* or eval",
        ),
        ("decoding.name=bream", r"unknown decoding 'bream' \(did you mean 'beam'\?\)"),
        ("decoding.pattern='_'", "decoding.pattern: the vocabulary cannot spell"),
        ("decoding.length=99", "99 is more than"),
    ],
)
def test_what_was_trained_and_what_is_wrong_is_refused(trained, setting, message):
    with pytest.raises(ConfigurationError, match=message):
        load(trained.directory, overrides=[setting])
