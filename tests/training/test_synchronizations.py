"""How often an update waits for the device, and what is known when it does not."""

from importlib import import_module

import pytest
import torch
from tests.synchronizing import Synchronizations
from tests.training.interrupted import assert_same_tensors, logged
from tests.training.test_not_finite import Overflow

from plugformer import create_model
from plugformer.errors import NotFiniteError
from plugformer.hooks import hookimpl
from plugformer.interfaces import Level, head
from plugformer.registry import Kind
from plugformer.training.not_finite import NotFiniteGuard

linear_cross_entropy = import_module("plugformer_blocks.linear_cross_entropy")


@pytest.fixture
def gpu(monkeypatch):
    """Has training read numbers as seldom as on a GPU, and compute the loss as one does."""
    monkeypatch.setattr(NotFiniteGuard, "every_update", NotFiniteGuard.skips)
    monkeypatch.setattr(linear_cross_entropy, "_on_cpu", linear_cross_entropy._plain)
    monkeypatch.setattr(head, "_places", lambda real: torch.arange(real.numel()))


class Counting:
    """Counts from the end of one update to the end of the next."""

    def __init__(self):
        self.waits = {}
        self._inside = None

    @hookimpl
    def step_ended(self, run, update):
        if self._inside is not None:
            self._inside.__exit__(None, None, None)
            self.waits[update.step] = dict(+self._inside.calls)
        self._inside = None if update.step == run.steps else Synchronizations(run.model).__enter__()


FEW = ("training.log_every=3", "training.evaluate_every=100", "training.steps=7", "model.layers=2")


def waits(train_tiny, out, *settings):
    counting = Counting()
    train_tiny(out, *FEW, *settings, callbacks=[counting])
    return counting.waits


SIZES = {"width": 8, "heads": 2, "layers": 1, "ffn_width": 8}


def test_an_update_waits_when_it_is_logged(train_tiny, tmp_path, gpu):
    """Once for losses and norms of all updates since the last time, once for the accuracy."""
    plain, logged = {}, {"tolist": 2}
    found = waits(train_tiny, tmp_path / "run", "training.batches_per_update=2")
    assert found == {2: plain, 3: logged, 4: plain, 5: plain, 6: logged, 7: found[7]}


EXAMPLES = {
    Level.NEXT_TOKEN: {"outputs": [[4, 5, 6], [7, 8]]},
    Level.TOKEN: {"targets": [[0, None, 1], [1, 0]]},
    Level.SEQUENCE: {"targets": [0, 1]},
}


def test_no_loss_of_a_head_waits(gpu, registry, any_head):
    levels = registry.load(Kind.HEAD, any_head).levels & EXAMPLES.keys()
    for level in sorted(levels):
        model = create_model(
            "decoder-only" if level is Level.NEXT_TOKEN else "encoder-only",
            level=level,
            head=any_head,
            vocabulary=9,
            outputs=None if level is Level.NEXT_TOKEN else 2,
            **SIZES,
        )
        targets = EXAMPLES[level] if any_head != "multi_label" else {"targets": [[0.0, 1.0], [1.0, 1.0]]}
        batch = model.batch(inputs=[[4, 5, 6], [7, 8]], **targets)
        with Synchronizations(model) as waiting:
            model(batch.to("cpu")).total.backward()
        assert not +waiting.calls


def test_leaving_updates_out_takes_a_decision_about_each(train_tiny, tmp_path, gpu):
    found = waits(train_tiny, tmp_path / "run", "training.on_nonfinite=skip")
    assert (found[2], found[3]) == ({"tolist": 1}, {"tolist": 2})


def test_waiting_seldom_changes_nothing(train_tiny, tmp_path, monkeypatch):
    settings = ("training.log_every=3", "training.steps=8")
    train_tiny(tmp_path / "often", *settings)
    monkeypatch.setattr(NotFiniteGuard, "every_update", NotFiniteGuard.skips)
    train_tiny(tmp_path / "seldom", *settings)
    assert_same_tensors(tmp_path / "often", tmp_path / "seldom")
    for often, seldom in zip(logged(tmp_path / "often"), logged(tmp_path / "seldom"), strict=True):
        assert seldom == pytest.approx(often)


def test_what_is_noticed_late_is_named_and_not_saved(train_tiny, tmp_path, gpu, monkeypatch):
    out = tmp_path / "run"
    observers = [Overflow(monkeypatch, step=6)]
    with pytest.raises(NotFiniteError) as caught:
        train_tiny(out, "model.attention=mha", "training.log_every=100", callbacks=observers)
    assert str(caught.value).startswith("Update 6: the loss is nan")
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000004"]
