"""Export to ONNX: one program of a model that labels, two of a model that generates.

https://onnx.ai. Batch, length and the length of the past are dynamic.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from plugformer.errors import NotExportableError
from plugformer.interfaces import (
    BEGIN,
    END,
    PADDING,
    UNKNOWN,
    Batch,
    Encoded,
    Generative,
    Head,
    Hypothesis,
    Level,
    Ragged,
    Session,
    Tokens,
    evaluating,
)
from plugformer.runs import TrainedModel
from plugformer_blocks import Program, exported, part_of, programs_of, tensors_of
from plugformer_export.onnx_usage import program, template_of
from plugformer_export.target import Engine, Target

OPSET = 20
"""The version of ONNX's operators: https://github.com/onnx/onnx/blob/main/docs/Operators.md."""

_SMALL, _LARGE = [[5, 4, 5, 4], [4, 5]], [[4] * 7, [5, 4], [5] * 3]


class ONNX(Target):
    """ONNX programs with a config.json that names their inputs and outputs, and the tokenizers' files."""

    name = "onnx"
    libraries = ("onnx", "onnxscript", "onnxruntime")

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns the part that cannot be traced, or the head that decides jointly."""
        head = trained.model.head
        if type(head).best is not Head.best:
            return [f"{trained.model.parts['head'].label}, which chooses the outputs of a text together,"]
        try:
            found = programs(trained)
        except NotExportableError as error:
            return [f"{part_of(trained.model, error)}: {error}; it"]
        try:
            with quiet():
                self._traced = {name: (each, exported(each, trained.model)) for name, each in found.items()}
        except NotExportableError as error:
            return [f"{error}; it"]
        return []

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes the programs, config.json and the tokenizers."""
        described = {}
        for name, (each, traced) in self._traced.items():
            file = file_of(trained, name)
            with quiet():
                written = torch.onnx.export(
                    traced,
                    dynamo=True,
                    opset_version=OPSET,
                    input_names=list(each.arguments),
                    output_names=list(each.outputs),
                    verbose=False,
                )
            assert written is not None  # noqa: S101 (None is for a file)
            written.save(str(folder / file), external_data=False)
            described[name] = {"file": file, "inputs": [*each.arguments], "outputs": [*each.outputs]}
        special = {"padding": PADDING, "begin": BEGIN, "end": END, "unknown": UNKNOWN}
        config = {
            "format": "plugformer-onnx",
            "opset": OPSET,
            "level": str(trained.model.level),
            "max_length": trained.task.model.max_length,
            "special_ids": special,
            "programs": described,
            "template": template_of(example(trained, [[4]])),
            "classes": trained.processor.classes,
        }
        (folder / "config.json").write_text(
            json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8"
        )
        for side, tokenizer in sides(trained).items():
            tokenizer.save(folder / f"tokenizer-{side}.json")

    def load(self, trained: TrainedModel, folder: Path) -> Engine:
        """Returns ONNX Runtime with the programs."""
        return ONNXRuntime(trained, folder)

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `onnxruntime` and `tokenizers` alone."""
        return program(trained, list(sides(trained)))


def file_of(trained: TrainedModel, name: str) -> str:
    """Returns the name of a program's file."""
    begin = "encoder.onnx" if len(trained.model.stacks) > 1 else "decoder_begin.onnx"
    return {"model": "model.onnx", "begin": begin, "step": "decoder_step.onnx"}[name]


def sides(trained: TrainedModel) -> dict[str, Any]:
    """Returns the tokenizers by the side that names their file."""
    source, target = trained.processor.tokenizers
    return {"shared": source} if source is target else {"source": source, "target": target}


def example(trained: TrainedModel, rows: Sequence[Sequence[int]]) -> Batch:
    """Returns questions of these tokens, as a batch."""
    inputs = trained.experiment.task_type.inputs
    if any(not part.optional for part in inputs):
        return trained.model.batch(inputs=rows)
    encoded = Encoded(start=Ragged.of([[BEGIN, *row] for row in rows]))
    return trained.model.spec.architecture.collate(encoded, trained.model.level)


def programs(trained: TrainedModel) -> dict[str, Program]:
    """Returns what is traced of a model."""
    return programs_of(trained.model, example(trained, _SMALL), example(trained, _LARGE))


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which the exporter reports nothing: the comparison tells whether it is right."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


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
        self.is_new = True

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

    def begin(self, batch: Batch) -> tuple[_Cache, Int[Tensor, " batch"]]:
        """Returns the cache, which has read the last token, too, and any token."""
        past = self.engine.begin(batch)
        return _Cache(past), torch.full((len(past.logits),), BEGIN)

    def step(self, tokens: Tokens, past: _Cache) -> Float[Tensor, "rows 1 outputs"]:
        """Returns the scores behind the next tokens, at first those that beginning has found."""
        if not past.is_new:
            past.past = self.engine.step(tokens.ids[:, 0], past.past)
        past.is_new = False
        return past.past.logits[:, None]

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns those of the original."""
        lengths: Tensor = self.original.input_lengths(batch)
        return lengths

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns that of the original."""
        room: Tensor = self.original.room(batch)
        return room
