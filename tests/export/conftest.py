"""Tiny runs that tests of exports share."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.conftest import tiny

from plugformer import load, train
from plugformer.registry import Registry
from plugformer.runs import TrainedModel

SETTINGS = (
    "data.size=300",
    "training.steps=6",
    "training.batch_size=8",
    "training.evaluate_every=6",
    "decoding.max_length=8",
)

GENERATED = ("brackets", "copying", "dates", "names")
"""Tasks whose data have a size."""


@pytest.fixture(scope="session")
def exportable(
    registry: Registry, sample_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., TrainedModel]:
    """Trains a tiny task for a few updates, with overrides as after --set, and loads the run.

    Parts that are not installed come from another registry.
    """
    everything = registry

    @cache
    def make(*overrides: str, task: str = "dates", registry: Registry = everything) -> TrainedModel:
        out = tmp_path_factory.mktemp("exportable") / "run"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PLUGFORMER_DATA", str(sample_data))
            given = [
                each for each in tiny(*SETTINGS, *overrides) if task in GENERATED or "data.size" not in each
            ]
            train(task, out=out, registry=registry, overrides=given, notify=str)
            return load(out, registry, device="cpu")

    return make
