"""Losses, gradients and parameters that are not finite: the run stops and says where, or goes on without."""

import io
import signal
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from tests.batches import pairs
from tests.training.interrupted import Interrupter, assert_same_end, logged

from plugformer.errors import InterruptedRunError, NotFiniteError
from plugformer.hooks import hookimpl
from plugformer.runs.loading import load
from plugformer.training.not_finite import explained
from plugformer.training.train import resume
from plugformer_cli.progress import ProgressDisplay
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoderModel
from plugformer_plugins.attention.grouped import MultiHeadAttention

DIVERGING = "training.optimizer={name: adam, lr: 1e30}"
SKIP = "training.on_nonfinite=skip"
POISON = 1
"""A row of the training split that comes twice in ten updates of eight examples."""


@pytest.fixture
def poisoned(monkeypatch):
    """Makes the loss of every batch that holds one row infinite."""
    loss = EncoderDecoderModel.forward

    def forward(self, batch, objective=None):
        found = loss(self, batch, objective)
        return found._replace(total=found.total * torch.inf) if POISON in batch.rows else found

    monkeypatch.setattr(EncoderDecoderModel, "forward", forward)


class Overflow:
    """Lets the decoder's self-attention overflow in one update."""

    def __init__(self, monkeypatch, step):
        self.step, self.broken = step, None
        forward = MultiHeadAttention.forward

        def overflowing(attention, x, context):
            output = forward(attention, x, context)
            return output * torch.inf if attention is self.broken else output

        monkeypatch.setattr(MultiHeadAttention, "forward", overflowing)

    @hookimpl
    def step_ended(self, run, update):
        self.broken = run.model.decoder.layers[0].attention if update.step == self.step - 1 else None


def test_the_message_names_the_step_the_module_and_the_checkpoint(train_tiny, tmp_path, monkeypatch):
    out = tmp_path / "run"
    observers = [Overflow(monkeypatch, step=6)]
    with pytest.raises(NotFiniteError) as caught:
        train_tiny(out, "model.attention=mha", callbacks=observers)
    said = str(caught.value)
    assert said.startswith("Update 6: the loss is nan")
    assert "First non-finite output: decoder.layers.0.attention (MultiHeadAttention)" in said
    assert f"last good checkpoint is {out / 'checkpoints' / 'step-00000004'}" in said
    assert f"`plugformer train --resume --out {out}`" in said
    assert load(out).predict(["May 1, 2001"])


def test_no_checkpoint_is_saved_of_a_model_that_has_diverged(train_tiny, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(NotFiniteError, match="the validation loss after update 1 is nan") as caught:
        train_tiny(out, DIVERGING, "training.evaluate_every=1")
    assert "No checkpoint has been saved yet" in str(caught.value)
    assert list((out / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("interrupted", [False, True])
def test_no_checkpoint_holds_parameters_that_are_not_finite(train_tiny, tmp_path, interrupted):
    class Breaker:
        @hookimpl
        def step_ended(self, run, update):
            if update.step == (3 if interrupted else 4):
                with torch.no_grad():
                    run.model.head.weight[0] = torch.nan
                if interrupted:
                    signal.raise_signal(signal.SIGINT)

    with pytest.raises(NotFiniteError) as caught:
        train_tiny(tmp_path / "run", callbacks=[Breaker()])
    assert str(caught.value).startswith(f"Update {3 if interrupted else 4} left non-finite parameters")
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_gradients_alone(train_tiny, tmp_path):
    class Breaker:
        @hookimpl
        def run_started(self, run):
            run.model.head.weight.register_hook(lambda gradient: gradient * torch.inf)

    with pytest.raises(NotFiniteError) as caught:
        train_tiny(tmp_path / "run", "training.gradient_clipping=null", callbacks=[Breaker()])
    assert "Non-finite gradients: head.weight." in str(caught.value)


def test_the_loss_that_a_hook_computes_is_explained(tiny_model):
    def objective(model, batch):
        loss = model(batch)
        return loss._replace(total=loss.total * torch.nan)

    said = explained(tiny_model(), [replace(pairs([[5, 6]], [[7]]), rows=[3])], objective)
    assert said.startswith("First non-finite output: the model (EncoderDecoderModel)")


def test_with_accumulation_the_batch_at_fault_is_named(train_tiny, tmp_path, poisoned):
    with pytest.raises(NotFiniteError) as caught:
        train_tiny(tmp_path / "run", "training.batches_per_update=7", "training.steps=2")
    said = str(caught.value)
    assert "First non-finite output: the model (EncoderDecoderModel)" in said
    rows = said.partition("(from 0): ")[2].partition(".\n")[0].split(", ")
    assert str(POISON) in rows
    assert len(rows) == 8, "one batch of the seven"


def test_skipped_updates_are_counted_and_shown(train_tiny, tmp_path, poisoned, recorder):
    screen = io.StringIO()
    display = ProgressDisplay(Console(file=screen, width=300))
    train_tiny(tmp_path / "run", SKIP, callbacks=[recorder, display])
    left_out = [update.step for update in recorder.of("step_ended", "update") if update.left_out]
    assert len(left_out) == 2, "once in each of two epochs"
    training = logged(tmp_path / "run", "training")
    assert [each["step"] for each in training if each["loss"] is None] == left_out
    assert [each["skipped"] for each in training] == [
        sum(step <= each["step"] for step in left_out) for each in training
    ]
    assert screen.getvalue().count("  2 skipped  ") == 11 - left_out[1]


def test_resumed_equals_uninterrupted_with_skipped_updates(train_tiny, tmp_path, poisoned, recorder):
    train_tiny(tmp_path / "whole", SKIP, callbacks=[recorder])
    at = {update.step for update in recorder.of("step_ended", "update") if update.left_out}
    observers = [Interrupter(*at)]
    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", SKIP, callbacks=observers)
    with pytest.raises(InterruptedRunError):
        resume(tmp_path / "run", callbacks=observers, notify=str)
    resume(tmp_path / "run", notify=str)
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_too_many_in_a_row(train_tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(
        EncoderDecoderModel,
        "forward",
        lambda self, batch, loss=EncoderDecoderModel.forward: _infinite(loss(self, batch)),
    )
    with pytest.raises(
        NotFiniteError, match=r"Update 10: the loss is inf.* 10 updates in a row had to be skipped"
    ):
        train_tiny(tmp_path / "run", SKIP, "training.evaluate_every=100", "training.steps=20")


def _infinite(loss):
    return loss._replace(total=loss.total * torch.inf)
