"""What a decoder costs whose layers take a share of the tokens, relative to one whose layers take all.

    python benchmarks/token_subsets.py --rounds 15

`examples/gallery` must be installed: its `mixture_of_depths` is in every layer, in place of `pre`.
Each round computes all of them in turn; processor time of one thread.
"""

import argparse
import statistics
import time

import torch

from plugformer import create_model
from plugformer.interfaces import Batch, Tokens

BATCH, LENGTH, WIDTH, LAYERS = 8, 256, 256, 4


def main() -> None:
    """Prints the ratios of an update and of a forward pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    residuals = {"all": "pre"}
    residuals |= {str(share): {"name": "mixture_of_depths", "capacity": share} for share in (1.0, 0.5, 0.125)}
    sizes = {"vocabulary": 64, "width": WIDTH, "ffn_width": 4 * WIDTH, "heads": 4, "layers": LAYERS}
    models = {name: create_model("decoder-only", residual=each, **sizes) for name, each in residuals.items()}
    ids = torch.randint(4, 64, (BATCH, LENGTH + 1))
    batch = Batch(
        target=Tokens(ids, torch.ones_like(ids, dtype=torch.bool), full=True),
        given=torch.ones(BATCH, dtype=torch.long),
    )
    for name, backward in (("training", True), ("forward", False)):
        ratios = {share: list[float]() for share in models}
        for number in range(rounds + 1):
            seconds = {share: seconds_of(model, batch, backward) for share, model in models.items()}
            for share in models if number else ():
                ratios[share].append(seconds[share] / seconds["all"])
        for share in list(models)[1:]:
            low, middle, high = statistics.quantiles(ratios[share], n=4)
            print(f"{name}, {share} of the tokens: {middle:.3f} [{low:.3f}, {high:.3f}] of the time")


def seconds_of(model: torch.nn.Module, batch: Batch, backward: bool) -> float:
    """Returns the processor time of hidden states, chosen as in training, with or without gradients."""
    started = time.process_time()
    with torch.set_grad_enabled(backward):
        hidden = model.train().hidden(batch)
    if backward:
        hidden.square().mean().backward()
    return time.process_time() - started


if __name__ == "__main__":
    main()
