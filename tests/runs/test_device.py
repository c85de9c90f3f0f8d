"""Which device a trained model computes on; PyTorch is made to tell of GPUs that this machine lacks."""

import pytest
import torch

from plugformer.distributed import Processes, chosen_device
from plugformer.errors import ConfigurationError
from plugformer.runs import loading


@pytest.fixture
def gpus(monkeypatch):
    """Pretends that the machine has so many GPUs of a type."""

    def pretend(kind, count):

        def current_accelerator(check_available: bool = False):
            return torch.device(kind) if count or not check_available else None

        monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return pretend


@pytest.mark.parametrize(("kind", "count"), [("cuda", 2), ("mps", 1)])
def test_a_gpu_is_the_default_where_there_is_one(gpus, kind, count):
    gpus(kind, count)
    assert chosen_device() == torch.device(kind)
    assert chosen_device("cpu") == torch.device("cpu")
    assert chosen_device(torch.device(kind, count - 1)).index == count - 1


def test_the_cpu_is_the_default_else(gpus):
    """Also with a build of PyTorch for CUDA, which knows an accelerator but has none available."""
    gpus("cuda", 0)
    assert chosen_device() == torch.device("cpu")


@pytest.mark.parametrize(
    ("kind", "count", "name"),
    [("cuda", 2, "cuda:7"), ("mps", 1, "cuda"), ("cuda", 1, "gpu")],
)
def test_a_device_that_is_not_there(gpus, kind, count, name):
    gpus(kind, count)
    with pytest.raises(ConfigurationError, match=f"'{name}'") as caught:
        chosen_device(name)
    assert "cpu" in str(caught.value)
    assert (kind in str(caught.value)) is (count > 0 or name == kind)


def test_a_model_is_loaded_to_its_device(monkeypatch, trained):
    """A model on the device `meta` has no numbers, and shows where it is."""
    monkeypatch.setattr(loading, "chosen_device", lambda name: torch.device(name or "meta"))
    model = loading.load(trained.directory)
    assert model.device.type == "meta"
    assert {each.device.type for each in model.model.state_dict().values()} == {"meta"}
    assert loading.load(trained.directory, device="cpu").device.type == "cpu"


def test_a_training_has_the_device_that_is_named(monkeypatch):
    assert Processes.join("cpu").device == torch.device("cpu")
    assert Processes.join().device == chosen_device()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigurationError, match=r"'cpu'.*launcher"):
        Processes.join("cpu")
