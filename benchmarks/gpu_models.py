"""What `gpu.py` measures: the models, their sizes, the systems that train them, and searches with them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from language_model import HandWritten, gpt2, gpt2_loss
from peers import Shape, marian, marian_loss, marian_search
from timed_updates import DEVICE, LEARNING_RATE, Stopwatch, train_ours, train_peer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import plugformer
from plugformer.interfaces import BEGIN, END, PADDING

EPOCH = 4
"""Batches that are trained on again and again."""
SPECIAL = 4
"""Token numbers before those of words."""
GPT2 = {
    "embeddings": {"tied": True, "scaled": False},
    "initialization": {"name": "normal", "deviation": 0.02},
    "position": "learned",
    "feed_forward": "gelu",
}
MARIAN = {
    "embeddings": {"shared": True, "tied": True, "scaled": True},
    "position": "sinusoidal",
    "feed_forward": "relu",
    "residual": "post",
}


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        language_model: Sizes of the language model, which reads `longest` tokens at a time.
        encoder_decoder: Sizes of the encoder-decoder.
        sequences: Sequences in a batch of the language model.
        pairs: Pairs in a batch of the encoder-decoder.
        words: Least and most words of a sentence.
        warm_up: Updates before the first round.
        updates: Updates of a round.
        rounds: Rounds of updates, and searches after a first one.
        steps: Tokens of an output, END included.
        searched: Sentences that are searched together.
        compiled: Whether compiled models are measured, too.
    """

    language_model: Shape
    encoder_decoder: Shape
    sequences: int
    pairs: int
    words: tuple[int, int]
    warm_up: int
    updates: int
    rounds: int
    steps: int
    searched: tuple[int, ...]
    compiled: bool


WHOLE = Plan(
    language_model=Shape(50304, 768, 12, 12, 3072, 0.0, 1024),
    encoder_decoder=Shape(32000, 512, 6, 8, 2048, 0.1, 128),
    sequences=24,
    pairs=512,
    words=(24, 32),
    warm_up=5,
    updates=8,
    rounds=3,
    steps=32,
    searched=(1, 32, 128),
    compiled=True,
)
TINY = Plan(
    language_model=Shape(100, 16, 1, 2, 48, 0.0, 32),
    encoder_decoder=Shape(100, 16, 1, 2, 32, 0.1, 32),
    sequences=2,
    pairs=4,
    words=(4, 8),
    warm_up=1,
    updates=1,
    rounds=2,
    steps=4,
    searched=(1, 3),
    compiled=False,
)


Train = Callable[[Stopwatch], None]
Search = Callable[[], list[list[int]]]


@dataclass(frozen=True)
class Training:
    """A model, and the systems that train it.

    Attributes:
        name: For the table.
        tokens: Targets of an update.
        operations: Floating-point operations of the matrix products of an update.
        systems: What trains the model until the stopwatch ends it, by name.
    """

    name: str
    tokens: float
    operations: float
    systems: Mapping[str, Train]


def task_of(shape: Shape, batch: int, architecture: str, parts: Mapping[str, Any], **training: Any) -> Any:
    """Returns a task of a model of some sizes and parts."""
    encoder = architecture == "encoder-decoder"
    model = {
        "architecture": architecture,
        "width": shape.width,
        "layers": shape.layers,
        "heads": shape.heads,
        "ffn_width": shape.hidden,
        "dropout": shape.dropout,
        "max_length": shape.longest,
        "head": "language_model",
    }
    return {
        "type": "sequence-to-sequence" if encoder else "language-modelling",
        "data": "memory",
        "tokenizer": "whitespace",
        "model": {**model, **parts},
        "training": {
            "steps": 1000,
            "batch_size": batch,
            "evaluate_every": 1000,
            "precision": "bf16",
            "optimizer": {"name": "adamw", "lr": LEARNING_RATE},
            "schedule": "constant",
            "gradient_clipping": 1.0,
            **training,
        },
        "evaluation": {"samples": 0},
    }


def words(shape: Shape, number: int) -> list[int]:
    """Returns words as numbers from 0: each of the vocabulary once, then random ones."""
    generator, known = torch.Generator().manual_seed(1), shape.vocabulary - SPECIAL
    once = torch.randperm(known, generator=generator)
    return torch.cat([once, torch.randint(known, (number - known,), generator=generator)]).tolist()


def text(numbers: Sequence[int]) -> str:
    """Returns words as text."""
    return " ".join(map(str, numbers))


def language_model(plan: Plan) -> Training:
    """Returns the trainings of the language model."""
    shape, length = plan.language_model, plan.language_model.longest
    numbers = words(shape, EPOCH * plan.sequences * length - 1)
    data = {"train": [{"text": text(numbers)}], "validation": [{"text": text(numbers[:2])}]}
    stream = torch.tensor([BEGIN, *(SPECIAL + number for number in numbers), END], device=DEVICE)
    batches = [(some,) for some in stream.unfold(0, length + 1, length).split(plan.sequences)]
    # With three matrices, SwiGLU has as many parameters and operations.
    other = {"position": "rope", "feed_forward": "swiglu", "norm": "rms_norm"}
    other = {**GPT2, **other, "ffn_width": shape.hidden * 2 // 3}

    def ours(parts: Mapping[str, Any], *, compiled: bool) -> Train:
        task = task_of(shape, plan.sequences, "decoder-only", parts, compile=compiled)
        return partial(train_ours, task, data)

    def page(*, compiled: bool) -> Train:
        def build() -> nn.Module:
            model = HandWritten(shape).to(DEVICE)
            return torch.compile(model) if compiled else model

        return partial(train_peer, build, lambda model, ids: model(ids), batches)

    gpt = partial(train_peer, partial(gpt2, shape), lambda model, ids: gpt2_loss(model, ids[:, 1:]), batches)
    systems = {
        "a page written by hand": page(compiled=False),
        "a page written by hand, compiled": page(compiled=True),
        "GPT-2 (transformers)": gpt,
        "Plugformer": ours(GPT2, compiled=False),
        "Plugformer, compiled": ours(GPT2, compiled=True),
        "Plugformer with RoPE, SwiGLU, RMSNorm": ours(other, compiled=False),
        "Plugformer with RoPE, SwiGLU, RMSNorm, compiled": ours(other, compiled=True),
    }
    matrices = shape.layers * (4 * shape.width**2 + 2 * shape.width * shape.hidden)
    matrices += shape.vocabulary * shape.width
    tokens = plan.sequences * length
    operations = tokens * (6 * matrices + 12 * shape.layers * shape.width * length)
    kept = {name: train for name, train in systems.items() if plan.compiled or "compiled" not in name}
    return Training("language model", tokens, operations, kept)


def sentences(plan: Plan) -> list[list[int]]:
    """Returns random sentences: sources and targets in turn."""
    generator, (least, most) = torch.Generator().manual_seed(2), plan.words
    lengths = torch.randint(least, most + 1, (2 * EPOCH * plan.pairs,), generator=generator).tolist()
    drawn = torch.tensor(words(plan.encoder_decoder, sum(lengths)))
    return [some.tolist() for some in drawn.split(lengths)]


def rows_of(plan: Plan) -> dict[str, list[dict[str, str]]]:
    """Returns the sentences as rows of a task."""
    texts = [text(numbers) for numbers in sentences(plan)]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    rows = [{"source": source, "target": target} for source, target in pairs]
    return {"train": rows, "validation": rows[:1]}


def padded(some: Sequence[Sequence[int]], *, begin: bool = False) -> Tensor:
    """Returns sentences as token numbers with END, and with BEGIN if asked, on the device."""
    rows = [torch.tensor([BEGIN] * begin + [SPECIAL + number for number in row] + [END]) for row in some]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING).to(DEVICE)


def translation(plan: Plan, **training: Any) -> dict[str, Any]:
    """Returns the task of the encoder-decoder."""
    return task_of(plan.encoder_decoder, plan.pairs, "encoder-decoder", MARIAN, **training)


def encoder_decoder(plan: Plan) -> Training:
    """Returns the trainings of the encoder-decoder."""
    shape, drawn, size = plan.encoder_decoder, sentences(plan), plan.pairs
    sources, targets = drawn[::2], drawn[1::2]
    starts = range(0, len(sources), size)
    batches = [
        (padded(sources[at : at + size]), padded(targets[at : at + size], begin=True)) for at in starts
    ]
    systems = {
        "Marian (transformers)": partial(train_peer, partial(marian, shape), marian_loss, batches),
        "Plugformer": partial(train_ours, translation(plan), rows_of(plan)),
    }
    read, written = (sum(len(row) + 1 for row in side) / EPOCH for side in (sources, targets))
    square, network = shape.width**2, 2 * shape.width * shape.hidden
    # Of attention to the source, keys and values are made of the source.
    products = shape.layers * (read * (4 * square + network + 2 * square) + written * (6 * square + network))
    products += written * shape.vocabulary * shape.width
    # Scores of attention are left out: with sentences this short they are less than 1 %.
    return Training("encoder-decoder", written, 6 * products, systems)


def our_search(run: Path, some: Sequence[Sequence[int]], beams: int, steps: int) -> Search:
    """Returns the search of a run for the outputs of some sentences."""
    decoding = "greedy" if beams == 1 else f"{{name: beam, size: {beams}}}"
    settings = [f"decoding={decoding}", f"decoding.length={steps - 1}"]
    trained = plugformer.load(run, overrides=settings, device=DEVICE)
    predictor = trained.predictor()
    batch = trained.questions([text(numbers) for numbers in some]).batch(range(len(some))).to(DEVICE)

    def search() -> list[list[int]]:
        with predictor.computing():
            return [found[0].tokens for found in predictor.search(batch, 0)]

    return search


def marians_search(model: nn.Module, some: Sequence[Sequence[int]], beams: int, steps: int) -> Search:
    """Returns the search of Marian."""
    source = padded(some)
    return lambda: marian_search(model, source, beams=beams, steps=steps).tolist()


def searches(plan: Plan, folder: Path) -> dict[str, Callable[..., Search]]:
    """Returns what makes a search of some sentences, by the name of the system; ours after one update."""
    systems: dict[str, Callable[..., Search]] = {}
    for name, dtype in {"float32": torch.float32, "bfloat16": torch.bfloat16}.items():
        model = marian(plan.encoder_decoder).eval().to(DEVICE, dtype)
        systems[f"Marian, {name}"] = partial(marians_search, model)
    for name, precision in {"float32": "float32", "bfloat16": "bf16"}.items():
        task, run = translation(plan, steps=1, precision=precision), folder / name
        plugformer.train(task, data=rows_of(plan), out=run, device=DEVICE, notify=str, final="validation")
        systems[f"Plugformer, {name}"] = partial(our_search, run)
    return systems
