"""How fast models train on a GPU, and how fast outputs are searched: in Plugformer and in its peers.

    python benchmarks/gpu.py

One process measures one system after another: a language model of GPT-2's sizes, next to a hand-written page
and GPT-2 of transformers; an encoder-decoder, next to Marian of transformers; and searches with it. All
train in bfloat16 by autocast, with Plugformer's fused AdamW, the same clipping, on the same random words.

- Plugformer's updates are those of `plugformer.train`, with its batches, hooks and checks; a callback looks
  at the clock. They have no line of the log, which is written every 50 updates. A peer's update is forward,
  backward, clipping and step on batches that are on the GPU.
- Some updates warm up. Then each round makes some, between two waits for the GPU, and medians count. The
  first update is measured from the built model on, in an empty cache of the compiler.
- The share of the peak is the products of forward and backward by PaLM's formula (appendix B of
  https://arxiv.org/abs/2204.02311) over the rate on the card's data sheet, bfloat16 without sparsity.
- All outputs have the same length. A search begins with tokens on the GPU and ends with token numbers. With
  bfloat16 Plugformer searches as a model does that was trained so; Marian's weights are bfloat16.

Without a GPU everything runs on the CPU, tiny and not compiled, and the figures say nothing. The peers need
`pip install transformers`.
"""

import gc
import os
import statistics
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import torch
from gpu_models import (
    TINY,
    WHOLE,
    Plan,
    Search,
    Train,
    Training,
    encoder_decoder,
    language_model,
    searches,
    sentences,
)
from timed_updates import DEVICE, Measured, Stopwatch, now

from plugformer.errors import described

PEAKS = {
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H200": 989e12,
}
"""Operations in bfloat16 a second, without sparsity, by NVIDIA's data sheets."""


def clear() -> None:
    """Frees what the last system has left."""
    gc.collect()
    torch.compiler.reset()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measured(training: Training, train: Train, plan: Plan) -> list[str]:
    """Returns the cells of a system that trains a model."""
    watch = Stopwatch(warm_up=plan.warm_up, updates=plan.updates, rounds=plan.rounds)
    clear()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache, suppress(Measured):
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            train(watch)
    except Exception as error:  # the others are measured all the same
        return [f"not measured: {described(error)}", *("",) * 4]
    peak = PEAKS.get(torch.cuda.get_device_name()) if DEVICE == "cuda" else None
    return [
        f"{training.tokens / watch.seconds:,.0f}",
        f"{1000 * watch.seconds:.1f}",
        f"{training.operations / watch.seconds / peak:.2f}" if peak else "-",
        f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if DEVICE == "cuda" else "-",
        f"{watch.first:.1f}",
    ]


def milliseconds(search: Search, plan: Plan) -> str:
    """Returns the milliseconds of a step of a search, the median of the rounds after the first."""
    seconds = []
    for _ in range(1 + plan.rounds):
        begin = now()
        search()
        seconds.append(now() - begin)
    return f"{1000 * statistics.median(seconds[1:]) / plan.steps:.2f}"


def row(cells: list[str]) -> None:
    """Prints a row of a table at once: a job may be cut short."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_trainings(plan: Plan) -> None:
    """Prints the table of trainings."""
    row(["model", "system", "targets/s", "ms an update", "share of peak", "peak memory", "first update, s"])
    row(["---"] * 7)
    if plan.compiled:  # the compiler starts its processes once
        torch.compile(lambda x: x.sin())(torch.ones(8, device=DEVICE))
    for training in (language_model(plan), encoder_decoder(plan)):
        for name, train in training.systems.items():
            row([training.name, name, *measured(training, train, plan)])


def print_searches(plan: Plan) -> None:
    """Prints the table of searches, in milliseconds a step."""
    clear()
    with tempfile.TemporaryDirectory() as folder:
        systems = searches(plan, Path(folder))
        row(["search", "sentences", *systems])
        row(["---"] * (2 + len(systems)))
        for beams in (1, 5):
            for number in plan.searched:
                some = sentences(plan)[:number]
                found = (system(some, beams, plan.steps) for system in systems.values())
                kind = "greedy" if beams == 1 else f"beam {beams}"
                row([kind, str(number), *(milliseconds(search, plan) for search in found)])


def main(plan: Plan = WHOLE if DEVICE == "cuda" else TINY) -> None:
    """Prints both tables."""
    begin = now()
    card = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    print(f"{card}, torch {torch.__version__}, transformers {version('transformers')}")
    if plan != WHOLE:
        print("**Tiny sizes: the figures say nothing.**")
    print(f"\n{plan.rounds} rounds of {plan.updates} updates after {plan.warm_up} others, medians:\n")
    print_trainings(plan)
    print(
        f"\nMilliseconds a step, {plan.rounds} searches of {plan.steps} steps after another one, medians:\n"
    )
    print_searches(plan)
    print(f"\n{now() - begin:.0f} seconds in all")


if __name__ == "__main__":
    main()
