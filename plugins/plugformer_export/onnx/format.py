"""The format ONNX: one program of a model that labels, two of a model that generates.

Batch, length and the length of the past are dynamic.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from plugformer.errors import NotExportableError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Batch, Encoded, Head, Level, Ragged
from plugformer.runs import TrainedModel
from plugformer_blocks import Program, exported, part_of, programs_of, tensors_of
from plugformer_export.engine import LoadedModel, most_tokens, quiet
from plugformer_export.kept import ExportEngine
from plugformer_export.onnx.engine import ONNXRuntime
from plugformer_export.tokenizer_files import tokenizer_problems

OPSET = 20
"""The version of ONNX's operators: https://github.com/onnx/onnx/blob/main/docs/Operators.md."""

_LOGGERS = ("torch.onnx", "onnx_ir", "onnxscript")
_SMALL, _LARGE = [[5, 4, 5, 4], [4, 5]], [[4] * 7, [5, 4], [5] * 3]

_OPEN = """\
import json
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
programs, template = config["programs"], config["template"]
sessions = {name: InferenceSession(str(folder / each["file"])) for name, each in programs.items()}
source = Tokenizer.from_file(str(folder / "tokenizer-SOURCE.json"))
target = Tokenizer.from_file(str(folder / "tokenizer-TARGET.json"))


def run(name, given):
    known = {each.name for each in sessions[name].get_inputs()}
    outputs = programs[name]["outputs"]
    found = sessions[name].run(outputs, {key: value for key, value in given.items() if key in known})
    return dict(zip(outputs, found))


def inputs(rows):
    \"\"\"Pads lists of token ids on the right; `template` says what stands before and after them.\"\"\"
    longest = max(map(len, rows))
    given = {}
    for name, (before, each, after) in template.items():
        width = len(before) + longest + len(after)
        values = np.zeros((len(rows), width), dtype=bool if name.endswith("_mask") else np.int64)
        for number, row in enumerate(rows):
            middle = row if name.endswith("_ids") else [each] * len(row)
            values[number, : width - longest + len(row)] = [*before, *middle, *after]
        given[name] = values
    return given
"""

_GENERATE = """

def generate(texts):
    \"\"\"Continues each text with the most probable token until END: greedy search.\"\"\"
    encoded = [source.encode(text, add_special_tokens=False).ids for text in texts]
    limits = [LIMIT for row in encoded]  # most tokens of each output
    special = config["special_ids"]
    found, past = run("begin", inputs(encoded)), {}
    rows, active = [[] for _ in texts], list(range(len(texts)))
    while True:
        past |= {name.replace("present", "past"): value for name, value in found.items()}
        logits = past.pop("logits")
        logits[:, [special["padding"], special["begin"]]] = -np.inf
        tokens = logits.argmax(axis=1)
        going = tokens != special["end"]
        kept = [n for n, row in enumerate(active) if going[n] and len(rows[row]) < limits[row]]
        if not kept:
            return [target.decode(row) for row in rows]
        if len(kept) < len(active):
            past = {name: value[kept] for name, value in past.items()}
            active, tokens = [active[n] for n in kept], tokens[kept]
        for row, token in zip(active, tokens.tolist()):
            rows[row].append(token)
        found = run("step", {"tokens": tokens, **past})
"""

_CLASSIFY = """

def scores(texts):
    \"\"\"Returns the scores of each text's outputs.\"\"\"
    encoded = [source.encode(text, add_special_tokens=False).ids for text in texts]
    return run("model", inputs(encoded))["logits"]
"""

_TAG = """

def scores(sentences):
    \"\"\"Returns for each word of each sentence, a list of words, the scores of its first token.\"\"\"
    words = [[source.encode(f" {word}", add_special_tokens=False).ids for word in each] for each in sentences]
    logits = run("model", inputs([sum(each, []) for each in words]))["logits"]
    before = len(template["source_ids"][0])
    firsts = [np.cumsum([before, *map(len, each)])[:-1] for each in words]
    return [rows[first] for rows, first in zip(logits, firsts)]
"""

_VECTORS = """

def vectors(texts):
    \"\"\"Returns a vector of each text; the product of two says how near their texts are.\"\"\"
    encoded = [source.encode(text, add_special_tokens=False).ids for text in texts]
    return run("model", inputs(encoded))["vector"]
"""

_BODIES = {
    Level.NEXT_TOKEN: _GENERATE,
    Level.SEQUENCE: _CLASSIFY,
    Level.TOKEN: _TAG,
    Level.VECTOR: _VECTORS,
}


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
        names = list(trained.processor.by_side)
        limit = most_tokens(trained) if trained.model.level is Level.NEXT_TOKEN else ""
        code = _OPEN + _BODIES[trained.model.level]
        code = code.replace("SOURCE", names[0]).replace("TARGET", names[-1]).replace("LIMIT", limit)
        return (
            "Install `onnxruntime` and `tokenizers`, and save this program next to the files. `config.json` "
            "names the inputs and outputs of the programs, the special token ids and the classes. Masks are "
            f"true for real tokens.\n\n```python\n{code}```\n"
        )


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


def template_of(one: Batch) -> dict[str, Any]:
    """Returns for each input what stands before a text's tokens, at each of them, and after them.

    Args:
        one: A question whose only ordinary token has the id 4.
    """
    tensors = tensors_of(one)
    ids = next(tensor for name, tensor in tensors.items() if name.endswith("_ids"))[0].tolist()
    at = ids.index(4)
    rows = {name: tensor[0].long().tolist() for name, tensor in tensors.items()}
    return {
        name: [row[:at], row[at], row[at + 1 :]] if len(row) == len(ids) else [row, 0, []]
        for name, row in rows.items()
    }
