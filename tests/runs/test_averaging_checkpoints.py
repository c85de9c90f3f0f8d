"""The parameters that wait to be averaged: which are kept, and what their mean is."""

import numpy as np
import pytest
import torch
from plugformer.runs.averaging_checkpoints import AveragingCheckpoints, step_of
from safetensors.numpy import load_file

from plugformer.configuration.task import Average
from plugformer.errors import RunError
from plugformer.runs.store import load_note, mean_tensors, restore, save_tensors, write_tensors


class Counting(torch.nn.Module):
    """Two layers that share a matrix, and a counter."""

    def __init__(self, number):
        super().__init__()
        generator = torch.Generator().manual_seed(number)
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        self.register_buffer("seen", torch.tensor(number))


@pytest.fixture
def keep(tmp_path):
    """Keeps candidates with the given values, one update after the other, and returns them."""

    def make(values, *, of="last", checkpoints=2, higher=False):
        average = Average(checkpoints=checkpoints, of=of)
        candidates = AveragingCheckpoints(tmp_path / "candidates", average, higher_is_better=higher)
        for step, value in enumerate(values, start=1):
            value, loss = value if isinstance(value, tuple) else (value, 1.0)
            candidates.keep(step, value, loss, Counting(step))
        return candidates

    return make


def steps(candidates):
    return [step_of(path) for path in candidates.chosen()]


def on_disk(folder):
    return sorted(step_of(path) for path in folder.glob("*"))


NAN = float("nan")


@pytest.mark.parametrize(
    ("of", "higher", "values", "expected"),
    [
        ("last", False, [1.0, 2.0, 3.0, 4.0], [3, 4]),
        ("last", False, [1.0], [1]),
        ("best", False, [3.0, 1.0, 2.0, 4.0], [2, 3]),
        ("best", True, [3.0, 1.0, 2.0, 4.0], [1, 4]),
        ("best", False, [1.0, 2.0, 2.0, 2.0], [1, 2]),  # of equals the first, as of the single best
        (
            "best",
            True,
            [(0.5, 3.0), (0.5, 1.0), (0.4, 0.1), (0.5, 2.0)],
            [2, 4],
        ),  # the lower loss before that
        ("best", True, [0.1, 0.1, 0.1], [1, 2]),
        ("best", False, [NAN, 9.0, NAN, 8.0], [2, 4]),
        ("best", True, [NAN, 9.0, NAN, 8.0], [2, 4]),
        ("best", True, [(NAN, 3.0), (NAN, 1.0), (NAN, 2.0)], [2, 3]),  # the lower loss here, too
    ],
)
def test_only_what_can_still_be_needed_is_kept(keep, tmp_path, of, higher, values, expected):
    assert steps(keep(values, of=of, higher=higher)) == expected
    assert on_disk(tmp_path / "candidates") == expected


def test_nothing_is_kept_unless_an_average_is_asked_for(tmp_path):
    candidates = AveragingCheckpoints(tmp_path / "candidates", None, higher_is_better=False)
    candidates.keep(1, 1.0, 1.0, Counting(1))
    assert candidates.chosen() == []
    assert not (tmp_path / "candidates").exists()


def test_the_mean_agrees_with_numpy(keep):
    candidates = keep([1.0, 1.0, 1.0], checkpoints=3)
    files = [load_file(path) for path in candidates.chosen()]
    found = mean_tensors(candidates.chosen())
    assert found.keys() == {"first.weight", "first.bias", "second.bias", "seen"}
    for name in found.keys() - {"seen"}:
        expected = np.mean([file[name].astype(np.float64) for file in files], axis=0).astype(np.float32)
        np.testing.assert_array_equal(found[name].numpy(), expected)
        assert found[name].dtype == torch.float32
    assert found["seen"] == 3  # no number to be averaged: that of the newest
    model = Counting(9)
    restore(model, found, candidates.chosen()[0])
    assert model.second.weight is model.first.weight
    assert torch.equal(model.second.weight, found["first.weight"])


def test_the_mean_is_computed_in_float64(tmp_path):
    """In float16, 2048 + 1 is 2048: sums would lose what is small."""
    paths = [tmp_path / f"{number}.safetensors" for number in range(3)]
    for path, value in zip(paths, [2048.0, 1.0, 1.0], strict=True):
        save_tensors({"weight": torch.tensor([value], dtype=torch.float16)}, path)
    (mean,) = mean_tensors(paths).values()
    assert mean.dtype == torch.float16
    assert mean.item() == np.float16(2050 / 3)


def test_evaluations_that_will_be_made_again_are_dropped(keep):
    candidates = keep([1.0, 2.0, 3.0], checkpoints=3)
    candidates.rewind(2, needed=True)
    assert steps(candidates) == [1, 2]


def test_all_go_at_once(keep, tmp_path):
    candidates = keep([1.0, 2.0])
    (tmp_path / ".candidates").mkdir()  # what a crash left while they were removed
    candidates.remove()
    assert list(tmp_path.iterdir()) == []
    candidates.remove()


def test_a_damaged_candidate(keep):
    candidates = keep([1.0, 2.0], of="best")
    path = candidates.chosen()[0]
    path.write_bytes(b"\x80\x04K\x01.")  # a pickle
    with pytest.raises(RunError, match=r"step-00000001\.safetensors is damaged"):
        candidates.chosen()


@pytest.mark.parametrize("note", ["half", "", "0.5 x"])
def test_a_damaged_note(tmp_path, note):
    (tmp_path / "candidates").mkdir()
    write_tensors({}, tmp_path / "candidates" / "step-00000001.safetensors", note=note)
    average = Average(checkpoints=2, of="best")
    with pytest.raises(RunError, match=r"step-00000001\.safetensors is damaged"):
        AveragingCheckpoints(tmp_path / "candidates", average, higher_is_better=True).chosen()


def test_a_file_without_a_note(tmp_path):
    save_tensors({"weight": torch.zeros(1)}, tmp_path / "plain.safetensors")
    with pytest.raises(RunError, match=r"plain\.safetensors is damaged"):
        load_note(tmp_path / "plain.safetensors")


def test_a_full_disk_leaves_the_others(keep, monkeypatch):
    def full(tensors, path, metadata):
        raise OSError(28, "No space left on device")

    candidates = keep([1.0, 2.0])
    monkeypatch.setattr("plugformer.runs.store.save_file", full)
    with pytest.raises(RunError, match=r"step-00000003\.safetensors cannot be written: No space left"):
        candidates.keep(3, 0.5, 1.0, Counting(3))
    assert steps(candidates) == [1, 2]
