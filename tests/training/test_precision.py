"""The numbers that a training computes with: the task's choice, the launcher's, noted in the lock."""

from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from plugformer.configuration.task import TrainingSettings
from plugformer.data.processor import Inputs
from plugformer.errors import ConfigurationError
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.training.strategy import TrainingStrategy


class Seen(TorchFunctionMode):
    """Notes which numbers layers compute with."""

    def __init__(self):
        super().__init__()
        self.types, self.trained = set(), set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function is torch.nn.functional.linear:
            (self.trained if torch.is_grad_enabled() else self.types).add(found.dtype)
        return found


@pytest.mark.parametrize(("setting", "expected"), [("bf16", torch.bfloat16), ("float32", torch.float32)])
def test_training_and_evaluation_have_the_precision_of_the_task(train_tiny, tmp_path, setting, expected):
    """Parameters stay float32; the lockfile says where and how it was computed."""
    whole = ["evaluation.metrics=[perplexity, exact_match]", "training.steps=1"]
    with Seen() as seen:
        train_tiny(tmp_path / "run", f"training.precision={setting}", *whole)
    assert expected in seen.trained
    environment = RunDirectory(tmp_path / "run").read_lockfile()["environment"]
    assert (environment["precision"], environment["threads"]) == (setting, torch.get_num_threads())
    assert {"numpy", "tokenizers", "datasets"} <= environment["versions"].keys()
    model = load(tmp_path / "run", device="cpu")
    assert {parameter.dtype for parameter in model.model.parameters()} == {torch.float32}
    with Seen() as seen:
        report = model.evaluate("validation")
        model.predict("May 1, 2001")
    assert seen.types == {expected}
    assert report.metrics["perplexity"]["value"] > 1


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
