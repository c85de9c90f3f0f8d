"""How fast each part of the gallery trains beside the built-in part whose place it takes.

    PLUGFORMER_DATA=... python benchmarks/gallery.py --rounds 15 --page docs/gallery.md

`examples/gallery` and `examples/plugformer-differential` must be installed. Two trainings, as `plugformer
train` makes them, differ in one part; they have the same batches and take turns for some updates. What counts
is the processor time of one thread: the median over the rounds of the built-in part's, divided by the
gallery's. Above 1 the gallery's is faster. The first turn, in which data are read, is left out.
"""

import argparse
import os
import re
import statistics
import tempfile
import time
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, Self

from plugformer import train
from plugformer.hooks import Update, hookimpl, must_not_fail

COMMON = (
    "training.steps=1000000",
    "training.evaluate_every=1000000",
    "training.log_every=1000000",
    "training.batch_tokens=1024",
    "evaluation.samples=0",
)
CAPTIONS = str(Path(__file__).parents[1] / "examples" / "transformer_tiny" / "de_en.yaml")
TRANSLATION = (
    "model.width=256",
    "model.ffn_width=1024",
    "model.layers=2",
    "model.residual=pre",
    "model.position=rope",
)
"""On top of `CAPTIONS`."""


class Pair(NamedTuple):
    """Settings with a part of the gallery, and with the built-in one."""

    own: tuple[str, ...]
    beside: str
    other: tuple[str, ...]
    task: str = CAPTIONS


def part(path: str, beside: str, key: str = "") -> Pair:
    """Returns a pair that differs in one name."""
    kind, _, name = path.partition("/")
    key = key or f"model.{kind}"
    return Pair((f"{key}={name}",), beside, (f"{key}={beside}",))


PAIRS = {
    **{
        path: part(path, beside)
        for path, beside in {
            "attention/sliding_window": "mha",
            "attention/talking_heads": "mha",
            "attention/cross_layer": "mha",
            "attention/differential": "mha",
            "position/shaw": "t5",
            "position/yarn": "rope",
            "residual/parallel": "pre",
            "residual/sandwich": "pre",
            "residual/layer_scale": "pre",
            "residual/deepnorm": "post",
            "residual/mixture_of_depths": "pre",
            "residual/stochastic_depth": "pre",
        }.items()
    },
    "attention/retention": Pair(
        ("model.decoder.attention=retention", "model.decoder.cross_attention.attention=mha"),
        "mha",
        ("model.decoder.attention=mha", "model.decoder.cross_attention.attention=mha"),
    ),
    "residual/token_merging": Pair(
        ("model.encoder.residual=token_merging",), "pre", ("model.encoder.residual=pre",)
    ),
    "head/crf": Pair(("model.head=crf",), "token_classifier", ("model.head=token_classifier",), "ud-ewt"),
    "callback/ema": Pair(("training.callbacks=[ema]",), "callbacks: []", ("training.callbacks=[]",)),
    "tokenizer/bpe_dropout": Pair(
        ("tokenizer={name: bpe_dropout, size: 8000}",), "bpe", ("tokenizer={name: bpe, size: 8000}",)
    ),
}


class Turns:
    """Tells what so many updates took, and waits until it is its turn again."""

    def __init__(self, updates: int, line: Connection) -> None:
        self.updates, self.line = updates, line
        self.started = time.process_time()

    @hookimpl
    @must_not_fail  # the training ends where nobody listens any more
    def step_ended(self, update: Update) -> None:
        """Ends a turn."""
        if update.step % self.updates == 0:
            self.line.send(time.process_time() - self.started)
            self.line.recv()
            self.started = time.process_time()


class Training:
    """A training in a process of its own, which computes only when it is its turn."""

    def __init__(self, task: str, settings: tuple[str, ...], updates: int) -> None:
        own = (*COMMON, *(TRANSLATION if task == CAPTIONS else ()))
        named = {setting.partition("=")[0] for setting in settings}
        kept = [setting for setting in own if setting.partition("=")[0] not in named]
        self._folder = tempfile.TemporaryDirectory()
        self._line, theirs = Pipe()
        self._process = get_context("spawn").Process(
            target=_train, args=(task, [*kept, *settings], self._folder.name, updates, theirs)
        )
        self._process.start()
        theirs.close()

    def begin(self) -> None:
        """Begins a turn; the first one has begun."""
        self._line.send(None)

    def end(self) -> float:
        """Waits for the end of a turn, and returns the processor seconds that it took."""
        seconds: float = self._line.recv()
        return seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def _train(task: str, settings: list[str], folder: str, updates: int, line: Connection) -> None:
    train(task, overrides=settings, out=Path(folder, "run"), callbacks=[Turns(updates, line)], notify=str)


def ratios(pair: Pair, rounds: int, updates: int) -> list[float]:
    """Returns how fast the gallery's part is beside the other one, of each round."""
    found = []
    with (
        Training(pair.task, pair.own, updates) as own,
        Training(pair.task, pair.other, updates) as other,
    ):
        for each in (own, other):
            each.end()
        for number in range(rounds):
            seconds = {}
            for each in (own, other) if number % 2 else (other, own):
                each.begin()
                seconds[each] = each.end()
            found.append(seconds[other] / seconds[own])
    return found


def main() -> None:
    """Measures pair after pair and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--page", type=Path, metavar="FILE", help="puts the figures into a page's tables")
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # of the trainings
    print("| part | beside | speed | middle half of the rounds |\n| --- | --- | --- | --- |")
    for name in arguments.only:
        pair = PAIRS[name]
        low, middle, high = statistics.quantiles(ratios(pair, arguments.rounds, arguments.updates), n=4)
        print(f"| `{name}` | `{pair.beside}` | {middle:.2f} | {low:.2f} to {high:.2f} |", flush=True)
        if arguments.page:
            text = arguments.page.read_text(encoding="utf-8")
            row = re.compile(rf"^(\| `{name}`: .* \| )[^|]* \|$", re.MULTILINE)
            text = row.sub(rf"\g<1>{middle:.2f} of `{pair.beside}` |", text)
            arguments.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
