"""The format ONNX: one program of a model that labels, two of a model that generates.

Batch, length and the length of the past are dynamic.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from plugformer.errors import NotExportableError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Batch, Encoded, Head, Level, Ragged
from plugformer.runs import TrainedModel
from plugformer_blocks import Program, exported, part_of, programs_of
from plugformer_export.engine import LoadedModel, quiet
from plugformer_export.kept import ExportEngine
from plugformer_export.onnx.card import program, template_of
from plugformer_export.onnx.engine import ONNXRuntime
from plugformer_export.tokenizer_files import tokenizer_problems

OPSET = 20
"""The version of ONNX's operators: https://github.com/onnx/onnx/blob/main/docs/Operators.md."""

_LOGGERS = ("torch.onnx", "onnx_ir", "onnxscript")
_SMALL, _LARGE = [[5, 4, 5, 4], [4, 5]], [[4] * 7, [5, 4], [5] * 3]


class ONNX(ExportEngine):
    """ONNX Runtime, with whose numbers the task's decoding searches.

    https://onnxruntime.ai. Its format: programs of ONNX, with a config.json that names their inputs and
    outputs, and the files of the tokenizers.
    """

    name = "onnxruntime"
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
            with quiet(*_LOGGERS):
                self._traced = {name: (each, exported(each, trained.model)) for name, each in found.items()}
        except NotExportableError as error:
            return [f"{error}; it"]
        return []

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes the programs, config.json and the tokenizers."""
        described = {}
        begin = "encoder.onnx" if len(trained.model.stacks) > 1 else "decoder_begin.onnx"
        files = {"model": "model.onnx", "begin": begin, "step": "decoder_step.onnx"}
        for name, (each, traced) in self._traced.items():
            # With gradients, a learned bias has attention traced through another kernel, of other strides.
            with torch.no_grad(), quiet(*_LOGGERS):
                written = torch.onnx.export(
                    traced,
                    dynamo=True,
                    opset_version=OPSET,
                    input_names=list(each.arguments),
                    output_names=list(each.outputs),
                    verbose=False,
                )
            assert written is not None  # noqa: S101 (None is for a file)
            written.save(str(folder / files[name]), external_data=False)
            described[name] = {"file": files[name], "inputs": [*each.arguments], "outputs": [*each.outputs]}
        special = {"padding": PADDING, "begin": BEGIN, "end": END, "unknown": UNKNOWN}
        template = template_of(example(trained, [[4]]))
        before, _, after = next(iter(template.values()))
        for name in self._traced["model"][0].arguments if "model" in self._traced else ():
            template.setdefault(name, [[0] * len(before), 0, [0] * len(after)])  # segments: all of one text
        config = {
            "format": "plugformer-onnx",
            "opset": OPSET,
            "level": str(trained.model.level),
            "max_length": trained.task.model.max_length,
            "special_ids": special,
            "programs": described,
            "template": template,
            "classes": trained.processor.classes,
        }
        (folder / "config.json").write_text(
            json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8"
        )
        trained.processor.save(folder)

    def load(self, trained: TrainedModel, folder: Path) -> LoadedModel:
        """Returns ONNX Runtime with the programs."""
        return ONNXRuntime(trained, folder)

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `onnxruntime` and `tokenizers` alone."""
        return program(trained)


def example(trained: TrainedModel, rows: Sequence[Sequence[int]]) -> Batch:
    """Returns questions of these tokens, as a batch."""
    inputs = trained.experiment.task_type.inputs
    if trained.model.level is not Level.NEXT_TOKEN or any(not part.optional for part in inputs):
        return trained.model.batch(inputs=rows)
    encoded = Encoded(start=Ragged.of([[BEGIN, *row] for row in rows]))
    return trained.model.spec.architecture.collate(encoded, trained.model.level)


def programs(trained: TrainedModel) -> dict[str, Program]:
    """Returns what is traced of a model."""
    texts = [column for column in trained.experiment.task_type.columns if column.role == "input"]
    several = len(texts) > 1 and trained.model.level is Level.SEQUENCE
    small, large = ((_joined if several else example)(trained, rows) for rows in (_SMALL, _LARGE))
    return programs_of(trained.model, small, large)


def _joined(trained: TrainedModel, rows: Sequence[Sequence[int]]) -> Batch:
    """Returns questions of two texts, END between them, with marks of segments."""
    encoded = Encoded({"input": Ragged.of([[*row, END, *row] for row in rows])})
    return trained.model.spec.architecture.collate(encoded, trained.model.level)
