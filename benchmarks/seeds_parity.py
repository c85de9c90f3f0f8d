"""For which components seeds that are trained together become what they become separately.

    python benchmarks/seeds_parity.py

A small model with each of the installed components is trained for five updates from five seeds, on random
tokens: each seed by itself, and all stacked into one model. In float64 differences are those of rounding if
nothing else is wrong. How much time that saves: seeds_together.py.
"""

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from stacked_seeds import Seed, StackedSeeds

from plugformer.configuration import resolve
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, Encoded, Level, Ragged
from plugformer.model import Sizes
from plugformer.registry import Kind, Registry
from plugformer.reproducibility import seed_generators
from plugformer.validation import validate

SEEDS = (1, 2, 3, 4, 5)
UPDATES = 5
SIZES = Sizes(source=40, outputs=40)
SMALL = ("model.width=16", "model.heads=4", "model.ffn_width=32", "data={name: dates}")
SLOTS = (Kind.POSITION, Kind.ATTENTION, Kind.FEED_FORWARD, Kind.NORM)
OPTIONS = {
    "post-norm": ("model.residual=post",),
    "tied, scaled embeddings": ("model.embeddings={shared: true, tied: true, scaled: true}",),
    "label smoothing": ("model.head={name: language_model, label_smoothing: 0.1}",),
    "gradient checkpointing": ("training.gradient_checkpointing=true",),
    "dropout": ("model.dropout=0.1",),
}
POOLINGS = ("first", "last", "max", "mean", "sum")


def cases(registry: Registry) -> Iterator[tuple[str, Experiment]]:
    """Yields what is tried, by name."""

    def case(name: str, *settings: str, task: str = "dates") -> tuple[str, Experiment]:
        return name, validate(resolve(task, [*SMALL, *settings], registry))

    for kind in SLOTS:
        for entry in registry.entries(kind):
            yield case(f"{kind}/{entry.name}", f"model.{kind}={entry.name}")
    yield case("head/language_model")
    for pooling in POOLINGS:
        head = f"model.head={{name: classifier, pooling: {pooling}}}"
        yield case(f"head/classifier, pooling {pooling}", head, "model.dropout=0", task="ag-news")
    for entry in registry.entries(Kind.OPTIMIZER):
        yield case(f"optimizer/{entry.name}", f"training.optimizer={{name: {entry.name}, lr: 0.002}}")
    for name, settings in OPTIONS.items():
        yield case(name, *settings)


def random_batch(resolved: Experiment, generator: np.random.Generator) -> Batch:
    """Returns between 5 and 8 examples of 1 to 12 tokens."""
    count = int(generator.integers(5, 9))
    source, target = (
        Ragged.of([generator.integers(4, 40, length).tolist() for length in generator.integers(1, 13, count)])
        for _ in range(2)
    )
    level = resolved.task_type.level
    encoded = Encoded({"input": source}, target)
    if level is Level.SEQUENCE:
        encoded = Encoded({"input": source}, targets=generator.integers(0, 4, count))
    return resolved.architecture.collate(encoded, level)


def differences(resolved: Experiment, dtype: torch.dtype) -> tuple[float, float]:
    """Returns the largest differences: of losses, and of parameters in the end."""
    generator = np.random.default_rng(1)
    apart, again = ([Seed(resolved.task, seed, SIZES, resolved.registry) for seed in SEEDS] for _ in range(2))
    for seed in apart + again:
        seed.model.to(dtype)
    stacked = StackedSeeds(again)
    of_losses = 0.0
    for _ in range(UPDATES):
        batches = [random_batch(resolved, generator) for _ in SEEDS]
        together = stacked.update(batches)
        for seed, batch, loss in zip(apart, batches, together, strict=True):
            of_losses = max(of_losses, abs(seed.update(batch) - loss))
    of_parameters = max(
        float((parameter - stacked.parameters[name][number]).abs().max())
        for number, seed in enumerate(apart)
        for name, parameter in seed.model.named_parameters()
    )
    return of_losses, of_parameters


def main() -> None:
    """Tries every component and prints one table."""
    warnings.simplefilter("ignore")  # of kernels that vmap calls seed by seed
    torch.set_num_threads(1)
    print(f"{'':34}  losses, float32  losses, float64  parameters, float64")
    for name, resolved in cases(Registry.discover()):
        seed_generators(1)
        try:
            single, double = (differences(resolved, dtype) for dtype in (torch.float32, torch.float64))
        except RuntimeError as error:
            print(f"{name:34}  {str(error).partition('. ')[0]}")
        else:
            print(f"{name:34}  {single[0]:15.1e}  {double[0]:15.1e}  {double[1]:19.1e}")


if __name__ == "__main__":
    main()
