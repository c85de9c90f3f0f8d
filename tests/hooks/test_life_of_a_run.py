"""Every hook, in the order of a run's life, with what it is given."""

import pytest

from plugformer.errors import InterruptedRunError
from plugformer.hooks import HOOKS, hookimpl, must_not_fail
from plugformer.runs.loading import load
from plugformer.training.train import resume

STEP, EVALUATION = ["step_ended"], ["evaluation_ended", "checkpoint_saved"]


def test_every_hook_in_order(trained):
    expected = ["run_started", "samples_shown", *4 * STEP, *EVALUATION, *4 * STEP, *EVALUATION]
    expected += [*2 * STEP, *EVALUATION, "run_ended", "run_evaluated"]
    assert trained.recorder.names == expected
    others = {"average_evaluated", "run_failed"}
    assert {*trained.recorder.names, *others} == set(HOOKS)


def test_what_hooks_are_given(trained):
    recorder = trained.recorder
    (run,) = recorder.of("run_started", "run")
    assert (run.directory, run.steps, run.epoch_steps) == (trained.directory, 10, 7)
    assert run.task.model.width == 16
    assert all(each is run for hook in ("step_ended", "run_ended") for each in recorder.of(hook, "run"))
    (samples,) = recorder.of("samples_shown", "samples")
    assert len(samples) == 2
    assert all(sample.source and len(sample.reference) == len("2001-02-03") for sample in samples)
    updates = recorder.of("step_ended", "update")
    assert [update.step for update in updates] == list(range(1, 11))
    assert [update.epoch for update in updates] == [1] * 7 + [2] * 3
    assert all(
        update.targets == 11 * 8 for update in updates if update.step != 7
    )  # ten digits or dashes, END
    assert all(update.tokens > update.targets and update.seconds > 0 for update in updates)
    evaluations = recorder.of("evaluation_ended", "evaluation")
    assert [evaluation.step for evaluation in evaluations] == [4, 8, 10]
    assert all(evaluation.metrics.keys() == {"exact_match"} for evaluation in evaluations)
    assert all(len(evaluation.samples) == 2 for evaluation in evaluations)
    assert recorder.of("checkpoint_saved", "step") == [4, 8, 10]
    assert [path.name for path in recorder.of("checkpoint_saved", "path")][-1] == "step-00000010"


def test_a_callback_that_raises_is_switched_off(train_tiny, tmp_path, recorder):
    class Careless:
        @hookimpl
        def step_ended(self, update):
            if update.step == 2:
                raise ValueError("what is this?")

        @hookimpl
        def run_ended(self):
            pytest.fail("it is switched off")

    notices = []
    train_tiny(tmp_path / "run", callbacks=[Careless(), recorder], notify=notices.append)
    said = [notice for notice in notices if "switched off" in notice]
    assert len(said) == 1
    assert said[0].endswith("Careless is switched off: its step_ended raised ValueError: what is this?")
    assert recorder.names[-2:] == ["run_ended", "run_evaluated"]


def test_a_callback_that_must_not_fail_stops_the_run_at_its_last_checkpoint(
    train_tiny, tmp_path, trained, recorder
):
    class Strict:
        @hookimpl
        @must_not_fail
        def step_ended(self, update):
            if update.step == 8:
                raise ConnectionError

    out = tmp_path / "run"
    with pytest.raises(ConnectionError):
        train_tiny(out, callbacks=[recorder, Strict()])
    assert isinstance(recorder.of("run_failed", "error")[0], ConnectionError)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000004"]
    resume(out, notify=str)
    assert (out / "model.safetensors").read_bytes() == (trained.directory / "model.safetensors").read_bytes()


def test_run_failed_is_told_of_an_interruption(train_tiny, tmp_path, recorder):
    import signal

    class Impatient:
        @hookimpl
        def step_ended(self):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", callbacks=[Impatient(), recorder])
    assert recorder.names[-2:] == ["checkpoint_saved", "run_failed"]
    assert load(tmp_path / "run").predict(["May 1, 2001"])
