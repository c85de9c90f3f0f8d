"""The numbers that a training computes with: the task's choice, the launcher's, noted in the lock."""

from collections import Counter

import pytest
import torch
from tests.batches import pairs
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from plugformer.configuration.task import TrainingSettings
from plugformer.data.processor import Inputs
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.training.strategy import TrainingStrategy


class Types:
    """Notes what is mixed with float32 where the encoder computes."""

    def __init__(self):
        self.seen = set()

    @hookimpl
    def run_started(self, run):
        run.model.encoder.register_forward_pre_hook(self._note)

    def _note(self, module, inputs):
        device = next(module.parameters()).device.type
        if torch.is_autocast_enabled(device):
            self.seen.add(torch.get_autocast_dtype(device))


def test_a_task_trains_in_mixed_precision_and_the_next_one_does_not(train_tiny, tmp_path):
    mixed, plain = Types(), Types()
    train_tiny(tmp_path / "bf16", "training.precision=bf16", "training.steps=1", observers=[mixed])
    train_tiny(tmp_path / "float32", "training.steps=1", observers=[plain])
    assert (mixed.seen, plain.seen) == ({torch.bfloat16}, set())
    noted = [
        RunDirectory(tmp_path / name).read_lockfile()["environment"]["precision"]
        for name in ("bf16", "float32")
    ]
    assert noted == ["bf16", "float32"]
    assert {parameter.dtype for parameter in load(tmp_path / "bf16").model.parameters()} == {torch.float32}


def test_every_attention_computes_in_bfloat16_without_a_warning(tiny_model, any_attention):
    model = tiny_model(f"model.attention={any_attention}")
    batch = pairs([[5, 6, 7, 8], [9]], [[6, 5], [8, 7, 4]])
    expected = model(batch).total
    with torch.autocast("cpu", torch.bfloat16):
        found = model(batch).total
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    found.backward()


class Seen(TorchFunctionMode):
    """Notes which numbers layers compute with."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function is torch.nn.functional.linear and not torch.is_grad_enabled():
            self.types.add(found.dtype)
        return found


@pytest.mark.parametrize(("setting", "expected"), [("bf16", torch.bfloat16), ("float32", torch.float32)])
def test_evaluation_has_the_precision_of_the_training(train_tiny, tmp_path, setting, expected):
    """Both while it trains and when the model is loaded; losses and answers alike."""
    whole = ["evaluation.metrics=[perplexity, exact_match]", "training.steps=1"]
    train_tiny(tmp_path / "run", f"training.precision={setting}", *whole)
    model = load(tmp_path / "run", device="cpu")
    with Seen() as seen:
        report = model.evaluate("validation")
    assert seen.types == {expected}
    assert report.metrics["perplexity"]["value"] > 1
    with Seen() as seen:
        model.predict("May 1, 2001")
    assert seen.types == {expected}


class WeightCasts(TorchDispatchMode):
    """Counts how often each parameter of a model is cast."""

    def __init__(self, model):
        super().__init__()
        self.names = {parameter.data_ptr(): name for name, parameter in model.named_parameters()}
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        first = args[0].data_ptr() if args and isinstance(args[0], torch.Tensor) else None
        if first in self.names and isinstance(found, torch.Tensor):
            self.counts[self.names[first]] += found.dtype != args[0].dtype
        return found


def test_mixed_precision_casts_each_weight_once_for_all_steps_of_decoding(trained):
    run = load(trained.directory, device="cpu")
    predictor = run.predictor()
    predictor.precision = "bf16"
    questions = Inputs.of(["May 1, 2001", "5 May 2020"], run.experiment, run.processor).split
    with WeightCasts(run.model) as casts:
        for _ in range(2):
            predictor.predict(questions)
    assert casts.counts["decoder.layers.0.feed_forward.up.weight"] == 1
    assert max(casts.counts.values()) == 1


def test_products_of_float32_matrices_are_as_precise_as_the_task_says(tiny_model):
    try:
        TrainingStrategy(tiny_model(), TrainingSettings(float32_matmul_precision="high"))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        TrainingStrategy(tiny_model(), TrainingSettings())  # the next training has its own precision
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_float16_without_a_gpu_is_refused_before_anything_is_made(train_tiny, tmp_path):
    with pytest.raises(ConfigurationError, match=r"training\.precision: fp16 needs a GPU; choose bf16"):
        train_tiny(tmp_path / "run", "training.precision=fp16")
    assert not list(tmp_path.iterdir())


def test_the_lock_says_where_it_was_computed(trained):
    environment = RunDirectory(trained.directory).read_lockfile()["environment"]
    assert environment["threads"] == torch.get_num_threads()
    assert environment["device"] == ("cpu" if not torch.cuda.is_available() else torch.cuda.get_device_name())
    assert {"numpy", "tokenizers", "datasets"} <= environment["versions"].keys()
    assert environment["processor"]
