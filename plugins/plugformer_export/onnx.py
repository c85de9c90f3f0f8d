"""Export to ONNX: one program of a model that labels, two of a model that generates.

https://onnx.ai. Batch, length and the length of the past are dynamic.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from plugformer.errors import NotExportableError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Batch, Encoded, Head, Level, Ragged
from plugformer.runs import TrainedModel
from plugformer_blocks import Program, exported, part_of, programs_of
from plugformer_export.onnx_engine import ONNXRuntime
from plugformer_export.onnx_usage import program, template_of
from plugformer_export.target import Engine, Target
from plugformer_export.tokenizer_files import sides, tokenizer_problems

OPSET = 20
"""The version of ONNX's operators: https://github.com/onnx/onnx/blob/main/docs/Operators.md."""

_SMALL, _LARGE = [[5, 4, 5, 4], [4, 5]], [[4] * 7, [5, 4], [5] * 3]


class ONNX(Target):
    """ONNX programs with a config.json that names their inputs and outputs, and the tokenizers' files."""

    name = "onnx"
    libraries = ("onnx", "onnxscript", "onnxruntime")

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns the part that cannot be traced, the head that decides jointly, or tokenizers."""
        head = trained.model.head
        if type(head).best is not Head.best:
            return [f"{trained.model.parts['head'].label}, which chooses the outputs of a text together,"]
        if unreadable := tokenizer_problems(trained):
            return unreadable
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


def example(trained: TrainedModel, rows: Sequence[Sequence[int]]) -> Batch:
    """Returns questions of these tokens, as a batch."""
    inputs = trained.experiment.task_type.inputs
    if trained.model.level is not Level.NEXT_TOKEN or any(not part.optional for part in inputs):
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
