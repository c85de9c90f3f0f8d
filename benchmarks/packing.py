"""Captions as a language model reads them: padded rows, or pieces of several, which see each other or do not.

    PLUGFORMER_DATA=... python benchmarks/packing.py --updates 600

The model, the optimizer and the targets are the same, about 2,000 of them in an update. Trainings take turns
of five updates. The speed is that of processor time with one thread: the median over the turns of targets/s,
by that of padded rows in the same turn. The loss is that of all captions of the validation, for a target.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.interfaces import evaluating
from plugformer.model import build
from plugformer.training.stream import epochs_of
from plugformer.validation import validate
from plugformer_plugins.task_type.language_modelling import LanguageModelling

TURN = 5
FOLDER = "${PLUGFORMER_DATA}/multi30k"
COMMON: dict[str, Any] = {
    "extends": str(Path(__file__).parents[1] / "examples" / "shakespeare" / "nanogpt.yaml"),
    "data": {
        "name": "text",
        "files": {"train": f"{FOLDER}/train.en", "validation": f"{FOLDER}/val.en"},
        "examples": "line",
        "ends": None,
    },
    "tokenizer": {"name": "bpe", "size": 4000},
    "model": {"max_length": 128},
    "training": {"batch_size": None, "batch_tokens": 2048},
}


class Lines(LanguageModelling):
    """Each text in a row of its own."""

    packed = False


TYPES: dict[str, Any] = {
    "padded, similar lengths": Lines,
    "packed, joined": "language-modelling",
    "packed, apart": {"name": "language-modelling", "documents": "apart"},
}


class Training:
    """A model, its batches, and what its turns took."""

    def __init__(self, kind: Any) -> None:
        experiment = validate(resolve({**COMMON, "type": kind}))
        data = prepare(experiment)
        self.train, self.held_out = data.splits["train"], data.splits["validation"]
        batches: Any = epochs_of(experiment.task.training, data)
        self.batches = ((epoch, batch) for epoch in itertools.count() for batch in batches(epoch))
        self.model = build(experiment.spec, data.processor.sizes).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.99))
        self.speeds: list[float] = []

    def turn(self) -> None:
        """Makes some updates."""
        started, targets = time.process_time(), 0
        for epoch, batch in itertools.islice(self.batches, TURN):
            loss = self.model(self.train.batch(*batch, epoch=[1, epoch]))
            self.optimizer.zero_grad()
            (loss.total / loss.targets).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            targets += int(loss.targets)
        self.speeds.append(targets / (time.process_time() - started))

    def loss(self) -> float:
        """Returns the loss of a target of the validation."""
        total, count = 0.0, 0
        with evaluating(self.model):
            for first in range(0, len(self.held_out), 16):
                rows = range(first, min(first + 16, len(self.held_out)))
                found = self.model(self.held_out.batch(rows))
                total, count = total + float(found.total), count + int(found.targets)
        return total / count


def main() -> None:
    """Trains in turns, and prints the speeds and losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--updates", type=int, default=600)
    updates = parser.parse_args().updates
    torch.set_num_threads(1)
    trainings = {name: Training(kind) for name, kind in TYPES.items()}
    for _ in range(updates // TURN):
        for training in trainings.values():
            training.turn()
    base, *_ = trainings.values()
    for name, training in trainings.items():
        ratios = [one / other for one, other in zip(training.speeds, base.speeds, strict=True)][1:]
        speed = statistics.median(training.speeds)
        print(f"| {name} | {speed:,.0f} | {statistics.median(ratios):.2f} | {training.loss():.3f} |")


if __name__ == "__main__":
    main()
