"""Every family in both directions: the same scores, and the same parameters after a round trip."""

import pytest
import torch
from tests.transformers.conftest import rows_of, task_of

from plugformer import load, train
from plugformer.hooks import hookimpl
from plugformer.runs import own_tensors
from plugformer_export import verified
from plugformer_export.transformers import Transformers

FAMILIES = ("llama", "gpt2", "bert", "bart", "marian", "t5")


class First:
    """Keeps the values before the first update."""

    @hookimpl
    def run_started(self, run):
        self.values = {name: each.clone() for name, each in own_tensors(run.model).items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_round_trip_keeps_parameters_and_scores(pretrained, tmp_path, family):
    folder, _ = pretrained(family)
    rows = rows_of(family)
    train(task_of(family, folder), data=rows, out=tmp_path / "run", notify=str)
    trained = load(tmp_path / "run", device="cpu")
    found = verified(trained, Transformers(), tmp_path / "out", data=rows["validation"])
    assert found.difference < 1e-5
    assert found.equal == found.examples
    expected, first = own_tensors(trained.model), First()
    train(task_of(family, tmp_path / "out"), data=rows, out=tmp_path / "again", notify=str, observers=[first])
    again = first.values
    assert again.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(again[name], expected[name])] == []
