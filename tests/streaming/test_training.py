"""Training on streamed data: resuming is exact, and processes that share a stream train as one."""

import pytest
from tests.training.interrupted import Interrupter, assert_same_end, progress
from tests.training.processes import differences, ends, launched

from plugformer.errors import ConfigurationError, InterruptedRunError, RunError
from plugformer.training.train import resume, train

LENGTHS = (3, 7, 4, 9, 2, 6)


@pytest.fixture
def task(tmp_path):
    """A task with two training files of 50 and 31 pairs; 16 updates make passes of their own over each."""
    pairs = [
        (f"{n % 7} {n} " + "a " * LENGTHS[n % 6], f"{n % 5} " + "b " * LENGTHS[n % 6]) for n in range(90)
    ]
    for name, part in (("one", pairs[:50]), ("two", pairs[50:81]), ("validation", pairs[81:])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in part))
    (tmp_path / "task.yaml").write_text(
        """
type: sequence-to-sequence
data:
  name: table
  files: {train: [one.tsv, two.tsv], validation: validation.tsv}
  header: false
  streaming: {buffer: 20}
tokenizer: characters
model: {architecture: encoder-decoder, width: 16, heads: 2, layers: 1, ffn_width: 32, dropout: 0.2,
        head: language_model, max_length: 40}
training: {steps: 16, batch_tokens: 200, batches_per_update: 2, log_every: 1, evaluate_every: 5}
decoding: {max_length: 3}
evaluation: {limit: 2, samples: 0}
"""
    )
    return str(tmp_path / "task.yaml")


def stream(out):
    """Returns the places in the stream."""
    return progress(out)["progress"]["stream"]


def test_resumed_equals_uninterrupted(task, tmp_path):
    """Interrupted in the middle of a block, where an evaluation is due, and in another pass."""
    notices = []
    train(task, out=tmp_path / "whole", notify=notices.append)
    places = stream(tmp_path / "whole")
    assert [place["passes"] > 0 for place in places] == [True, True]
    assert "train: read " in "\n".join(notices)
    out = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match="step 1/16"):
        train(task, out=out, callbacks=[Interrupter(1)], notify=str)
    for step in (2, 5, 15):
        with pytest.raises(InterruptedRunError, match=f"step {step}/16"):
            resume(out, callbacks=[Interrupter(step)], notify=str)
        assert any(place["batch"] > 0 for place in stream(out))
    resume(out, notify=str)
    assert_same_end(out, tmp_path / "whole")


def test_processes_share_a_stream_and_train_as_one(task, tmp_path):
    """Each reads the file of its own batch of an update."""
    one, two = tmp_path / "one", tmp_path / "two"
    smooth = "training.optimizer={name: adamw, lr: 0.001, epsilon: 0.01}"
    still = ["model.dropout=0.0", smooth]
    train(task, overrides=still, out=one, notify=str)
    chosen = [word for setting in still for word in ("--set", setting)]
    command = ["-m", "plugformer", "train", task, *chosen, "--out", str(two)]
    with launched(2, *command) as processes:
        assert [each.status for each in ends(processes)] == [0, 0]
    assert differences(one, two) < 1e-6
    assert stream(one) == stream(two)


def test_changed_data_are_refused(task, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        train(task, out=out, callbacks=[Interrupter(3)], notify=str)
    file = tmp_path / "two.tsv"
    file.write_text(file.read_text().replace("a a", "a b"))
    with pytest.raises(RunError, match=r"components or data have changed since the run began:\n  train: "):
        resume(out, notify=str)


def test_another_number_of_batches_is_refused(task, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        train(task, out=out, callbacks=[Interrupter(3)], notify=str)
    file = out / "task.yaml"
    file.write_text(file.read_text().replace("batches_per_update: 2", "batches_per_update: 3"))
    with pytest.raises(RunError, match=r"places for 2 batches of an update, the task makes 3"):
        resume(out, notify=str)


def test_any_data_can_be_streamed(train_tiny, tmp_path):
    notices = []
    report = train_tiny(tmp_path / "run", "data.streaming={buffer: 25}", notify=notices.append)
    assert report.split == "test"
    assert any(notice.startswith("train: read ") for notice in notices)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.steps=null", r"data\.streaming: a stream .* give training\.steps"),
        ("data.split={validation: 0.1}", r"data\.split: streamed data cannot be split"),
        ("training.resample=true", r"training\.resample: a stream is read once"),
        ("data.streaming={bufer: 3}", r"data\.streaming\.bufer: .* 'buffer'"),
    ],
)
def test_what_a_stream_needs_is_said_before_anything_is_read(task, tmp_path, override, message):
    with pytest.raises(ConfigurationError, match=message):
        train(task, overrides=[override], out=tmp_path / "run", notify=str)
    assert not (tmp_path / "run").exists()
