"""What a user of an ONNX export runs: a program that needs `onnxruntime` and `tokenizers` alone."""

from typing import Any

from plugformer.interfaces import Batch, Level
from plugformer.runs import TrainedModel
from plugformer_blocks import tensors_of
from plugformer_export.engine import most_tokens

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


def program(trained: TrainedModel) -> str:
    """Returns Markdown with the program."""
    names = list(trained.processor.by_side)
    limit = most_tokens(trained) if trained.model.level is Level.NEXT_TOKEN else ""
    code = _OPEN + _BODIES[trained.model.level]
    code = code.replace("SOURCE", names[0]).replace("TARGET", names[-1]).replace("LIMIT", limit)
    return (
        "Install `onnxruntime` and `tokenizers`, and save this program next to the files. `config.json` "
        "names the inputs and outputs of the programs, the special token ids and the classes. Masks are true "
        f"for real tokens.\n\n```python\n{code}```\n"
    )
