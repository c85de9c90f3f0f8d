"""ALBERT is one layer, again and again."""

from collections.abc import Callable
from pathlib import Path

import pytest

import plugformer
from plugformer.errors import ConfigurationError
from plugformer_testing import parametrize_with_checks

ROWS = [[text, label] for text, label in (("yes", "good"), ("no", "bad")) for _ in range(8)]


@parametrize_with_checks("architecture/albert")
def test_albert(check):
    check()


@parametrize_with_checks("architecture/albert", options={"groups": 2})
def test_albert_with_groups(check):
    check()


@pytest.mark.parametrize("groups", [1, 2])
def test_layers_of_a_group_are_one(write_task: Callable[..., str], tmp_path: Path, groups: int) -> None:
    """Trained, saved and loaded; with four layers of the same values it is BERT."""
    task = write_task(
        ["text", "label"],
        ROWS,
        type="classification",
        architecture=f"{{name: albert, groups: {groups}}}",
        head="classifier",
        metrics="accuracy",
    )
    report = plugformer.train(task, out=tmp_path / "run").report
    assert report.metrics["accuracy"]["value"] == 1
    trained = plugformer.load(tmp_path / "run")
    encoder = trained.model.encoder
    assert len(encoder.layers) == 4
    assert len({id(layer) for layer in encoder.layers}) == groups
    plain = plugformer.train(
        task, overrides=["model.architecture=encoder-only", "training.steps=1"], out=tmp_path / "plain"
    ).report
    other = plugformer.load(plain.run)
    one, four = (
        sum(each.numel() for each in run.model.encoder.layers.parameters()) for run in (trained, other)
    )
    assert one * 4 == four * groups
    other.model.load_state_dict(trained.model.state_dict())
    assert other.predict(["yes", "no"]) == trained.predict(["yes", "no"])


def test_settings_of_a_layer_that_shares_anothers_are_refused(write_task: Callable[..., str]) -> None:
    task = write_task(
        ["text", "label"],
        ROWS,
        type="classification",
        architecture="albert",
        head="classifier",
        metrics="accuracy",
    )
    with pytest.raises(ConfigurationError, match=r"take model.encoder.per_layer.2 out"):
        plugformer.train(task, overrides=["model.encoder.per_layer.2.attention=mqa"])
