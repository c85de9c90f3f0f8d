"""How fast outputs are searched, next to CTranslate2 with the same weights and to Hugging Face's generate.

    python benchmarks/decoding.py --threads 1 --rounds 9

The model has the sizes of `examples/transformer_tiny` and random weights, those of the output layer its
own. END is improbable, so that every system computes 21 tokens for each sentence. Plugformer and
CTranslate2 have the same weights, Marian the same sizes. A round runs all systems in turn; medians of
seconds and of ratios within rounds count: with one thread seconds of the processor, which other programs
disturb less. The peers need `pip install ctranslate2 transformers`.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peers
import torch
from peers import Shape

from plugformer.configuration import resolve
from plugformer.interfaces import BEGIN, END, PADDING, AllowedTokens, Batch, Session, evaluating
from plugformer.interfaces.batch import Tokens
from plugformer.model import Sizes, build
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy

VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, LONGEST, STEPS = 8000, 128, 4, 4, 256, 128, 21
IMPROBABLE = -1e4

Run = Callable[[], list[list[int]]]


class Limited:
    """The constraint of all outputs: at most `STEPS` tokens, END counted."""

    def start(self, _: torch.Tensor, room: torch.Tensor) -> AllowedTokens:
        """Returns what may follow."""
        return AllowedTokens(torch.zeros_like(room), torch.full_like(room, STEPS - 1))


def model_of_task() -> Any:
    """Returns the model, with weights that make outputs depend on the input."""
    torch.manual_seed(1)
    settings = [
        f"model.width={WIDTH}",
        f"model.layers={LAYERS}",
        f"model.heads={HEADS}",
        f"model.ffn_width={HIDDEN}",
        f"model.max_length={LONGEST}",
        "model.embeddings={shared: true, tied: false, scaled: true}",
        "model.position=sinusoidal",
        "model.feed_forward=relu",
        "model.residual=post",
        "model.head={name: language_model, bias: true}",
    ]
    model: Any = build(validate(resolve("dates", settings)).spec, Sizes(VOCABULARY, VOCABULARY)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embedding" not in name and "head" not in name:
                parameter.mul_(2.0)
        model.head.bias[END] = IMPROBABLE
    return model.requires_grad_(False)


def sentences(count: int) -> list[list[int]]:
    """Returns inputs of 8 to 20 tokens and END."""
    generator = torch.Generator().manual_seed(count)
    lengths = torch.randint(8, 21, (count,), generator=generator).tolist()
    return [
        [*torch.randint(4, VOCABULARY, (length,), generator=generator).tolist(), END] for length in lengths
    ]


def padded(rows: list[list[int]]) -> Tokens:
    """Returns the inputs as one batch."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])
    return Tokens(ids, ids != PADDING, bool((ids != PADDING).all()))


def plugformer(model: Any, rows: list[list[int]], beams: int) -> Run:
    """Returns the search of our model."""
    decoding = Greedy() if beams == 1 else Beam(size=beams)
    numbers = list(range(len(rows)))

    def run() -> list[list[int]]:
        with evaluating(model):
            batch = Batch(padded(rows), rows=numbers)
            session = Session(model, batch, Limited(), numbers)
            return [found[0].tokens for found in decoding.search(session)]

    return run


def ctranslate2(model: Any, folder: Path, compute_type: str, threads: int) -> Callable[..., Run]:
    """Returns the function that gives CTranslate2's search, with the same weights."""
    import ctranslate2

    from plugformer_export.ctranslate2.specification import specification

    # A copy, because `optimize` scales weights in place.
    spec = specification(SimpleNamespace(model=deepcopy(model), registry=Registry.discover()))
    words = [str(number) for number in range(VOCABULARY)]
    spec.config.decoder_start_token = words[BEGIN]
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words[1:4]
    spec.config.add_source_eos = False
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize(quantization=None if compute_type == "float32" else compute_type)
    folder.mkdir()
    spec.save(str(folder))
    engine = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=compute_type, intra_threads=threads, inter_threads=1
    )

    def search(rows: list[list[int]], beams: int) -> Run:
        spelled = [[words[token] for token in row] for row in rows]

        def run() -> list[list[int]]:
            found = engine.translate_batch(
                spelled,
                beam_size=beams,
                max_decoding_length=STEPS,
                suppress_sequences=[[words[PADDING]], [words[BEGIN]]],
            )
            return [[int(token) for token in one.hypotheses[0]] for one in found]

        return run

    return search


def marian(rows: list[list[int]], beams: int) -> Run:
    """Returns the search of Hugging Face's generate, with a model of the same sizes."""
    model = peers.marian(Shape(VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, longest=LONGEST)).eval()
    source = padded(rows).ids
    return lambda: peers.marian_search(model, source, beams=beams, steps=STEPS).tolist()


def medians(
    systems: dict[str, Run], rounds: int, clock: Callable[[], float]
) -> dict[str, tuple[float, float]]:
    """Returns each system's seconds, and how many times as fast as it the first one is."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds + 1):  # the first round warms up
        for name, run in systems.items():
            started = clock()
            run()
            seconds[name].append(clock() - started)
    own = next(iter(seconds.values()))[1:]
    found = {}
    for name, taken in seconds.items():
        ratios = [other / mine for mine, other in zip(own, taken[1:], strict=True)]
        found[name] = statistics.median(taken[1:]), statistics.median(ratios)
    return found


def processor() -> str:
    """Returns the name of the processor and its instruction sets."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def main() -> None:
    """Prints a table for each search and batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--without-marian", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    print(f"{processor()}; {arguments.threads} thread(s); torch {torch.__version__}; {STEPS} steps")
    model = model_of_task()
    with tempfile.TemporaryDirectory() as folder:
        engines = {
            kind: ctranslate2(model, Path(folder) / kind, kind, arguments.threads)
            for kind in ("float32", "int8")
        }
        for beams in arguments.beams:
            for count in arguments.batches:
                rows = sentences(count)
                systems = {"plugformer float32": plugformer(model, rows, beams)}
                for kind, engine in engines.items():
                    systems[f"CTranslate2 {kind}"] = engine(rows, beams)
                if not arguments.without_marian:
                    systems["transformers (Marian, same sizes)"] = marian(rows, beams)
                pairs = list(
                    zip(systems["plugformer float32"](), systems["CTranslate2 float32"](), strict=True)
                )
                same = sum(mine == other[: STEPS - 1] for mine, other in pairs)
                print(f"\nbeam {beams}, {count} sentences; {same} outputs equal CTranslate2's")
                for name, (taken, ratio) in medians(systems, arguments.rounds, clock).items():
                    rate = count * STEPS / taken
                    print(f"{name:36}{1000 * taken:9.1f} ms{rate:10,.0f} tokens/s   ours is {ratio:.2f}x")


if __name__ == "__main__":
    main()
