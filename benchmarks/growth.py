"""How time and memory of an encoder grow with the length of its input, and with its width.

    python benchmarks/growth.py --json growth.json

One sequence, forward and backward, dropout 0.1. Every figure is of a process that does nothing else; memory
is what it takes beyond the libraries and the model with its gradients.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from machine import peak_memory
from torch import Tensor, nn

from plugformer.configuration import resolve, validate
from plugformer.data.batches import Tokens
from plugformer.interfaces import Padding
from plugformer.model.assembly import Sizes, assemble

LAYERS, HEADS, VOCABULARY = 3, 4, 8000
LENGTHS, WIDTHS = (128, 512, 2048, 8192), (128, 256, 512, 1024)
LENGTH, WIDTH = 512, 256

Step = Callable[[], Tensor]


def plugformer(position: str, length: int, width: int) -> tuple[nn.Module, Step]:
    """Returns Plugformer's encoder and what computes one sequence."""
    settings = [
        f"model.width={width}",
        f"model.layers={LAYERS}",
        f"model.heads={HEADS}",
        f"model.hidden_width={4 * width}",
        f"model.max_length={length}",
        f"model.position={position}",
        "model.dropout=0.1",
    ]
    task = validate(resolve("dates", settings))
    encoder = assemble(task.task, Sizes(VOCABULARY, VOCABULARY), task.registry).train().encoder
    ids = torch.randint(4, VOCABULARY, (1, length))
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), Padding.NONE)
    return encoder, lambda: encoder(tokens).hidden.square().mean()


def torch_encoder(length: int, width: int) -> tuple[nn.Module, Step]:
    """Returns torch's encoder and what computes one sequence."""
    layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, 0.1, batch_first=True, norm_first=True)
    model = nn.ModuleList(
        [nn.Embedding(VOCABULARY, width), nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)]
    ).train()
    ids = torch.randint(4, VOCABULARY, (1, length))
    return model, lambda: model[1](model[0](ids)).square().mean()


ENCODERS: dict[str, Callable[[int, int], tuple[nn.Module, Step]]] = {
    "plugformer, sinusoidal": lambda length, width: plugformer("sinusoidal", length, width),
    "plugformer, rope": lambda length, width: plugformer("rope", length, width),
    "plugformer, alibi": lambda length, width: plugformer("alibi", length, width),
    "torch.nn.TransformerEncoder": torch_encoder,
}


def measure(name: str, length: int, width: int) -> None:
    """Prints seconds of a step, and the memory in MB that it takes."""
    model, step = ENCODERS[name](length, width)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before, seconds = peak_memory(), []
    for _ in range(3):
        started = time.perf_counter()
        step().backward()
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": statistics.median(seconds), "memory_mb": peak_memory() - before}))


def main() -> None:
    """Measures every encoder at every size and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "LENGTH", "WIDTH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, length, width = arguments.one
        measure(name, int(length), int(width))
        return
    sizes = [*((length, WIDTH) for length in LENGTHS), *((LENGTH, width) for width in WIDTHS)]
    rows = []
    print(f"{'encoder':28}  length  width  seconds  memory MB")
    for name in ENCODERS:
        for length, width in sizes:
            command = [sys.executable, __file__, "--one", name, str(length), str(width)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append({"encoder": name, "length": length, "width": width, **found})
            print(f"{name:28}  {length:6}  {width:5}  {found['seconds']:7.3f}  {found['memory_mb']:9.0f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
