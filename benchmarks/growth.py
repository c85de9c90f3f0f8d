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
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from machine import peak_memory
from torch import Tensor, nn

from plugformer.configuration import resolve
from plugformer.interfaces import Tokens
from plugformer.model import Sizes, build
from plugformer.validation import validate

HEADS, VOCABULARY = 4, 8000
LENGTHS, WIDTHS = (128, 512, 2048, 8192), (128, 256, 512, 1024)
LENGTH, WIDTH = 512, 256

Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Size:
    """What is measured: sizes, and further settings of Plugformer's encoders."""

    length: int
    width: int
    layers: int
    settings: list[str]


def plugformer(position: str, size: Size) -> tuple[nn.Module, Step]:
    """Returns Plugformer's encoder and what computes one sequence."""
    settings = [
        f"model.width={size.width}",
        f"model.layers={size.layers}",
        f"model.heads={HEADS}",
        f"model.ffn_width={4 * size.width}",
        f"model.max_length={size.length}",
        f"model.position={position}",
        "model.dropout=0.1",
    ]
    task = validate(resolve("dates", [*settings, *size.settings]))
    encoder = build(task.spec, Sizes(VOCABULARY, VOCABULARY)).train().encoder
    ids = torch.randint(4, VOCABULARY, (1, size.length))
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), full=True)
    return encoder, lambda: encoder(tokens).hidden.square().mean()


def torch_encoder(size: Size) -> tuple[nn.Module, Step]:
    """Returns torch's encoder and what computes one sequence."""
    layer = nn.TransformerEncoderLayer(
        size.width, HEADS, 4 * size.width, 0.1, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
    model = nn.ModuleList([nn.Embedding(VOCABULARY, size.width), encoder]).train()
    ids = torch.randint(4, VOCABULARY, (1, size.length))
    return model, lambda: model[1](model[0](ids)).square().mean()


ENCODERS: dict[str, Callable[[Size], tuple[nn.Module, Step]]] = {
    "plugformer, sinusoidal": partial(plugformer, "sinusoidal"),
    "plugformer, rope": partial(plugformer, "rope"),
    "plugformer, alibi": partial(plugformer, "alibi"),
    "torch.nn.TransformerEncoder": torch_encoder,
}


def measure(name: str, size: Size) -> None:
    """Prints seconds of a step, and the memory in MB that it takes."""
    model, step = ENCODERS[name](size)
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
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=list(ENCODERS))
    parser.add_argument("--lengths", nargs="*", type=int, default=LENGTHS)
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for Plugformer")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        size = Size(arguments.lengths[0], arguments.widths[0], arguments.layers, arguments.set)
        measure(arguments.encoders[0], size)
        return
    sizes = [(length, WIDTH) for length in arguments.lengths]
    sizes += [(LENGTH, width) for width in arguments.widths]
    further = ["--layers", str(arguments.layers), *(f"--set={each}" for each in arguments.set)]
    rows = []
    print(f"{'encoder':28}  length  width  seconds  memory MB")
    for name in arguments.encoders:
        for length, width in sizes:
            command = [sys.executable, __file__, "--one", *further, "--encoders", name]
            command += ["--lengths", str(length), "--widths", str(width)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append({"encoder": name, "length": length, "width": width, **found})
            print(f"{name:28}  {length:6}  {width:5}  {found['seconds']:7.3f}  {found['memory_mb']:9.0f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
