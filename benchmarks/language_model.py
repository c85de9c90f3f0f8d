"""How fast a small language model of characters trains: in Plugformer, on a hand-written page, and as GPT-2.

    python benchmarks/language_model.py --rounds 5

The model is that of `examples/shakespeare/nanogpt.yaml` with learned positions: four layers of width 128,
four heads, 64 characters at a time, 12 sequences a batch, weights of embedding and output tied. Each round
runs each system for some updates in turn, on random characters and with the same optimizer. GPT-2 needs
`pip install transformers`.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float, Int
from peers import Shape
from torch import Tensor, nn
from torch.nn import functional

from plugformer.configuration import resolve
from plugformer.experiment import Experiment
from plugformer.interfaces import BEGIN, END, Batch, Tokens
from plugformer.model import Sizes, build

TASK = Path(__file__).parents[1] / "examples" / "shakespeare" / "nanogpt.yaml"
SHAPE = Shape(vocabulary=69, width=128, layers=4, heads=4, hidden=512, dropout=0.0, longest=64)
BATCH = 12

Ids = Int[Tensor, "batch length"]
System = tuple[nn.Module, Callable[[Ids], Tensor]]


class Layer(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, hidden, self.heads = shape.width, shape.hidden, shape.heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states after this layer."""
        heads = self.inputs(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        read = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.output(read.transpose(1, 2).flatten(-2))
        output: Tensor = x + self.down(functional.gelu(self.up(self.norms[1](x))))
        return output


class HandWritten(nn.Module):
    """The model on one page."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * 0.02)
        self.positions = nn.Parameter(torch.randn(shape.longest, shape.width) * 0.02)
        self.layers = nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, ids: Ids) -> Float[Tensor, ""]:
        """Returns the mean loss of all characters but the first of each row."""
        x = functional.embedding(ids[:, :-1], self.embedding) + self.positions
        logits = functional.linear(self.norm(self.layers(x)), self.embedding)
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def hand_written() -> System:
    """Returns the hand-written model and its loss."""
    model = HandWritten(SHAPE)
    return model, model


def plugformer() -> System:
    """Returns the model assembled from components and its mean loss."""
    resolved = Experiment.from_resolved(resolve(TASK, ["model.position=learned"]))
    model = build(resolved.spec, Sizes(SHAPE.vocabulary, SHAPE.vocabulary)).train()

    def loss(ids: Ids) -> Tensor:
        real = torch.ones_like(ids, dtype=torch.bool)
        found = model(Batch(target=Tokens(ids, real, full=True)))
        return found.total / found.targets

    return model, loss


def gpt2(shape: Shape) -> nn.Module:
    """Returns GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout)
    model: nn.Module = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=shape.vocabulary,
            n_positions=shape.longest + 1,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_inner=shape.hidden,
            bos_token_id=BEGIN,
            eos_token_id=END,
            use_cache=False,
            **rates,
        )
    )
    return model.train()


def gpt2_loss(model: nn.Module, ids: Ids) -> Float[Tensor, ""]:
    """Returns the mean loss of all tokens but the first of each row."""
    loss: Tensor = model(input_ids=ids, labels=ids).loss
    return loss


def rate(system: System, updates: int) -> float:
    """Returns the characters/s of some updates."""
    model, loss = system
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    started = time.perf_counter()
    for _ in range(updates):
        optimizer.zero_grad()
        loss(torch.randint(4, SHAPE.vocabulary, (BATCH, SHAPE.longest + 1))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return updates * BATCH * SHAPE.longest / (time.perf_counter() - started)


def main() -> None:
    """Measures in turn and prints medians, and Plugformer's ratio to each of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=100)
    arguments = parser.parse_args()
    systems = {"Plugformer": plugformer(), "hand-written": hand_written()}
    try:
        model = gpt2(SHAPE)
        systems["GPT-2 (transformers)"] = model, partial(gpt2_loss, model)
    except ImportError:
        print("GPT-2 is left out: transformers is not installed")
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for system in systems.values():
        rate(system, 10)
    for _ in range(arguments.rounds):
        for name, system in systems.items():
            rates[name].append(rate(system, arguments.updates))
    print("| system | characters/s | Plugformer's ratio, median of rounds |\n| --- | --- | --- |")
    for name, found in rates.items():
        ratios = [own / other for own, other in zip(rates["Plugformer"], found, strict=True)]
        print(f"| {name} | {statistics.median(found):,.0f} | {statistics.median(ratios):.2f} |")


if __name__ == "__main__":
    main()
