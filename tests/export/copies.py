"""A format for tests: the parameters in a file, read into a second model."""

from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from plugformer.interfaces import Batch, Generative, Hypothesis, evaluating
from plugformer.runs import TrainedModel, load_tensors, own_tensors, save_tensors
from plugformer_export.engine import LoadedModel, SearchingModel
from plugformer_export.kept import ExportEngine


class Copied(SearchingModel):
    """Computes with the second model."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        self.model = deepcopy(trained.model)
        self.model.load_state_dict(load_tensors(folder / "parameters.safetensors"), strict=False)

    def logits(self, batch: Batch) -> Tensor:
        with evaluating(self.model):
            return self.model.logits(batch)

    def outputs(self, batch: Batch, rows: list[int], most: int, n_best: int) -> list[list[Hypothesis]]:
        predictor = self.trained.predictor()
        assert isinstance(self.model, Generative)
        predictor.model = self.model
        with predictor.computing():
            found = predictor.search(batch, 0)
        return [found[row] for row in rows]


class Copy(ExportEngine):
    """The format; `noise` is added to every parameter."""

    name = "copy"
    compute_types = ("float32", "noisy")

    def __init__(self, *, compute_type: str = "float32", noise: float = 0.0) -> None:
        super().__init__(compute_type=compute_type)
        self.noise = noise

    def problems(self, trained: TrainedModel) -> list[str]:
        return []

    def write(self, trained: TrainedModel, folder: Path) -> None:
        torch.manual_seed(1)
        tensors = own_tensors(trained.model)
        noisy = {name: value + self.noise * torch.randn_like(value) for name, value in tensors.items()}
        save_tensors(noisy, folder / "parameters.safetensors")

    def load(self, trained: TrainedModel, folder: Path) -> LoadedModel:
        return Copied(trained, folder)

    def usage(self, trained: TrainedModel) -> str:
        return "Copy it."
