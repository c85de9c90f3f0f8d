"""Weights of Transformers decide settings; adapters leave a plain run."""

import pytest
import torch
from tests.transformers.conftest import rows_of, task_of

from plugformer import load, resume, train
from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.runs import own_tensors
from plugformer_plugins.callback.average_checkpoints import mean_tensors


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"width": 64}, "model.width"),
        ({"attention": "mqa"}, "model.attention.name"),
        ({"encoder": {"per_layer": {1: {"feed_forward": "relu"}}}}, "per_layer.1.feed_forward"),
    ],
)
def test_a_setting_that_contradicts_the_weights_is_refused(pretrained, setting, path):
    with pytest.raises(ConfigurationError, match=path):
        resolve(task_of("bert", pretrained("bert")[0], **setting))


def test_a_classifier_that_begins_with_weights_reads_all_tokens_by_default(pretrained):
    folder, _ = pretrained("bert")
    assert resolve(task_of("bert", folder, head="classifier")).task.model.token_dropout == 0.0
    chosen = resolve(task_of("bert", folder, head="classifier", token_dropout=0.2))
    assert chosen.task.model.token_dropout == 0.2


class Stop:
    @hookimpl
    def checkpoint_saved(self, step):
        if step == 2:
            raise KeyboardInterrupt


def test_adapters_resume_exactly_and_leave_a_plain_run(pretrained, tmp_path):
    head, rows = {"name": "classifier", "pooling": "first", "hidden": 32}, rows_of("bert", label=True)
    written = task_of("bert", pretrained("bert")[0], head=head)
    hooks = [{"name": "lora", "rank": 2}]
    written["training"] = {"steps": 4, "evaluate_every": 2, "batch_size": 4, "callbacks": hooks}
    whole = train(written, data=rows, out=tmp_path / "whole", notify=str)
    with pytest.raises(KeyboardInterrupt):
        train(written, data=rows, out=tmp_path / "half", notify=str, callbacks=[Stop()])
    again = resume(tmp_path / "half", data=rows, notify=str)
    expected = own_tensors(whole.model)
    for other in (again, load(tmp_path / "half")):
        found = own_tensors(other.model)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_average_of_adapted_models_is_that_of_their_sums(pretrained, tmp_path):
    written = task_of("bert", pretrained("bert")[0])
    hooks = [{"name": "lora", "rank": 2, "alpha": 64}, {"name": "average_checkpoints", "checkpoints": 2}]
    optimizer = {"name": "adamw", "lr": 0.1}
    written["training"] = {
        "steps": 4,
        "evaluate_every": 2,
        "batch_size": 4,
        "callbacks": hooks,
        "optimizer": optimizer,
    }
    trained = train(written, data=rows_of("bert"), out=tmp_path / "run", notify=str)
    expected = mean_tensors(sorted((tmp_path / "run" / "averaging").iterdir()))
    for name, tensor in own_tensors(trained.model).items():
        torch.testing.assert_close(tensor, expected[name])
