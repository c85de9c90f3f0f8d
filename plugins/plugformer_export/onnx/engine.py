"""ONNX Runtime as an engine: its scores, and outputs that the task's decoding finds with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import Batch, Level
from plugformer.runs import TrainedModel
from plugformer_blocks import tensors_of
from plugformer_export.engine import LoadedModel


class ONNXRuntime(LoadedModel):
    """ONNX Runtime; outputs are searched by the task's decoding, with its numbers."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        import onnxruntime

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        self.programs: Mapping[str, Any] = config["programs"]
        self._sessions = {
            name: onnxruntime.InferenceSession(
                str(folder / each["file"]), options, providers=["CPUExecutionProvider"]
            )
            for name, each in self.programs.items()
        }

    def run(self, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the outputs of a program by name; it ignores tensors that it does not read."""
        each = self.programs[name]
        known = {entry.name for entry in self._sessions[name].get_inputs()}  # unused ones are left out
        given = {key: tensors[key].numpy() for key in each["inputs"] if key in known}
        found = self._sessions[name].run(each["outputs"], given)
        return {key: torch.from_numpy(value) for key, value in zip(each["outputs"], found, strict=True)}

    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the scores of each target, or at level `vector` the hidden states."""
        level = self.trained.model.level
        if level is Level.NEXT_TOKEN:
            return self._teacher_forced(batch)
        if level is not Level.VECTOR:
            return self.run("model", tensors_of(batch))["logits"]
        ids, mask = self.programs["model"]["inputs"]
        columns = {
            name: tokens.by_example(self.run("model", {ids: tokens.ids, mask: tokens.mask})["hidden"])
            for name, tokens in batch.reads.items()
        }
        absent = torch.zeros_like(next(iter(columns.values()))[:, :1])
        parts = self.trained.model.spec.inputs
        return torch.cat([columns.get(part.name, absent) for part in parts], dim=1)

    def _teacher_forced(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of the targets, each from those before it; zeros elsewhere."""
        targets, real = self.trained.model.targets(batch)
        places = (real.long().cumsum(dim=1) - 1).clamp(min=0)
        steps = int(real.sum(dim=1).max())
        slots = (~real).long().argsort(dim=1, stable=True)[:, :steps]
        following = targets.gather(1, slots)
        past, first = self.begin(batch)
        scores = [first, *(self.step(following[:, step], past) for step in range(steps - 1))]
        stacked = torch.stack(scores, dim=1)
        index = places[..., None].expand(-1, -1, stacked.shape[-1])
        return stacked.gather(1, index).masked_fill(~real[..., None], 0.0)

    def begin(self, batch: Batch) -> tuple["_Cache", Float[Tensor, "batch outputs"]]:
        """Returns the cache, and the scores after what is given."""
        tensors = tensors_of(batch)
        if "target_mask" in self.programs["begin"]["inputs"]:
            read = batch.target.mask.long().cumsum(dim=1)
            given = torch.ones(len(read), dtype=torch.long) if batch.given is None else batch.given
            tensors["target_mask"] = batch.target.mask & (read <= given[:, None])
        past = _Cache()
        return past, past.take(self.run("begin", tensors))

    def step(self, tokens: Int[Tensor, " rows"], past: "_Cache") -> Float[Tensor, "rows outputs"]:
        """Returns the scores after another token of each row."""
        return past.take(self.run("step", {"tokens": tokens, **past.tensors}))


class _Cache:
    """The tensors of a cache, by the names that a step knows them by; a `Session` changes them in place."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def take(self, outputs: dict[str, Tensor]) -> Tensor:
        """Takes what a program has computed; returns the scores."""
        logits = outputs.pop("logits")
        self.tensors |= {name.replace("present", "past"): tensor for name, tensor in outputs.items()}
        return logits

    def select(self, rows: Int[Tensor, " rows"], examples: Int[Tensor, " examples"] | None = None) -> None:  # noqa: ARG002
        """Keeps these rows of every tensor: the program has one of each for each row, also of the inputs."""
        self.tensors = {name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()}
