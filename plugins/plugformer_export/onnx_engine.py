"""ONNX Runtime as an engine: its scores, and outputs that the task's decoding finds with them."""

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from plugformer.interfaces import Batch, Generative, Hypothesis, Level, Session, Tokens, evaluating
from plugformer.runs import TrainedModel
from plugformer_blocks import tensors_of
from plugformer_export.target import Engine


class ONNXRuntime(Engine):
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
        found = self.begin(batch)
        scores = [found.logits]
        for step in range(steps - 1):
            found = self.step(following[:, step], found)
            scores.append(found.logits)
        stacked = torch.stack(scores, dim=1)
        index = places[..., None].expand(-1, -1, stacked.shape[-1])
        return stacked.gather(1, index).masked_fill(~real[..., None], 0.0)

    def begin(self, batch: Batch) -> "Past":
        """Returns the scores behind what is given, and the cache."""
        tensors = tensors_of(batch)
        if "target_mask" in self.programs["begin"]["inputs"]:
            read = batch.target.mask.long().cumsum(dim=1)
            given = torch.ones(len(read), dtype=torch.long) if batch.given is None else batch.given
            tensors["target_mask"] = batch.target.mask & (read <= given[:, None])
        return Past(self.run("begin", tensors), self)

    def step(self, tokens: Int[Tensor, " rows"], past: "Past") -> "Past":
        """Returns the scores behind another token of each row, and the cache with it."""
        found = self.run("step", {"tokens": tokens, **past.tensors})
        return Past({**past.found, **found}, self)

    def search(self, batch: Batch) -> list[list[Hypothesis]]:
        """Returns each example's outputs, the best first."""
        predictor: Any = self.trained.predictor()
        decoder = _Decoder(self)
        with evaluating(decoder):
            found: list[list[Hypothesis]] = predictor.decoding.search(
                Session(decoder, batch, predictor.constraint, batch.rows)
            )
        return found


@dataclass
class Past:
    """The scores of the next token, and the cache, of some rows.

    Attributes:
        found: The last outputs by name.
        engine: What they are from.
    """

    found: dict[str, Shaped[Tensor, "rows ..."]]
    engine: ONNXRuntime

    @property
    def logits(self) -> Float[Tensor, "rows outputs"]:
        """The scores of the next token."""
        return self.found["logits"]

    @property
    def tensors(self) -> dict[str, Shaped[Tensor, "rows ..."]]:
        """The cache, by the names that a step knows it by."""
        kept = {name: tensor for name, tensor in self.found.items() if name != "logits"}
        return {name.replace("present", "past"): tensor for name, tensor in kept.items()}


class _Cache:
    """The cache of a search, which changes in place, as a `Session` expects."""

    def __init__(self, past: Past) -> None:
        self.past = past

    def select(self, rows: Int[Tensor, " rows"], examples: Int[Tensor, " examples"] | None = None) -> None:  # noqa: ARG002
        """Keeps these rows of every tensor: the program has one of each for each row, also of the inputs."""
        found = {name: tensor.index_select(0, rows) for name, tensor in self.past.found.items()}
        self.past = Past(found, self.past.engine)


class _Decoder(Generative):
    """A model whose hidden states are the engine's scores, so that every search reads them."""

    def __init__(self, engine: ONNXRuntime) -> None:
        super().__init__()
        self.engine = engine
        self.original: Any = engine.trained.model
        self.level, self.spec = self.original.level, self.original.spec
        self.sizes, self.parts = self.original.sizes, self.original.parts
        self.head = copy(self.original.head)
        setattr(self.head, "logits", lambda hidden, real: hidden)  # noqa: ARG005, B010 (mypy knows a method)

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns those of the original."""
        found: tuple[Tensor, Tensor] = self.original.targets(batch)
        return found

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """Returns the engine's scores."""
        return self.engine.logits(batch)

    def begin(self, batch: Batch) -> tuple[_Cache, Float[Tensor, "batch outputs"]]:
        """Returns the cache, and the scores behind what is given."""
        past = self.engine.begin(batch)
        return _Cache(past), past.logits

    def step(self, tokens: Tokens, past: _Cache) -> Float[Tensor, "rows 1 outputs"]:
        """Returns the scores behind the next tokens."""
        past.past = self.engine.step(tokens.ids[:, 0], past.past)
        return past.past.logits[:, None]

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns those of the original."""
        lengths: Tensor = self.original.input_lengths(batch)
        return lengths

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns that of the original."""
        room: Tensor = self.original.room(batch)
        return room
