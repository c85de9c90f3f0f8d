"""How fast a run answers with each engine, next to CTranslate2 called directly with the same files.

    python benchmarks/engines.py RUN --split validation --beams 1 5

All examples of a split, as one call, and the first ones one by one: texts go in, texts come out. The direct
program has the files of the export, `tokenizers` and `ctranslate2` alone; `translate_batch` sorts and
batches. A number is the processor's seconds of one thread, which other programs disturb less than the
wall's: the median of some turns, in which all systems take turns. Ratios are medians of those within turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from decoding import processor

from plugformer import load
from plugformer.errors import PlugformerError
from plugformer_export.ctranslate2.format import CTranslate2
from plugformer_export.kept import kept

Answers = Callable[[list[str]], list[str]]
INT8 = {"name": "ctranslate2", "compute_type": "int8"}
ENGINES: dict[str, Any] = {
    "torch": None,
    "ctranslate2": "ctranslate2",
    "ctranslate2 int8": INT8,
    "onnxruntime": "onnxruntime",
}


def ours(run: Path, overrides: list[str], engine: Any) -> Answers:
    """Returns the answers of a run with an engine."""
    trained = load(run, overrides=overrides, device="cpu", engine=engine)
    return lambda texts: [str(answer.output) for answer in trained.predict(texts)]


def direct(run: Path, overrides: list[str], beams: int, kind: str) -> Answers:
    """Returns the answers of CTranslate2 itself."""
    import ctranslate2
    from tokenizers import Tokenizer

    trained = load(run, overrides=overrides, device="cpu")
    folder = kept(CTranslate2(compute_type=kind), trained, lambda _: None)
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="default", intra_threads=1)
    sides = ("shared", "shared") if (folder / "tokenizer-shared.json").exists() else ("source", "target")
    source, target = (Tokenizer.from_file(str(folder / f"tokenizer-{side}.json")) for side in sides)
    predictor: Any = trained.predictor()
    penalty = {"length_penalty": predictor.decoding.length_penalty} if beams > 1 else {}

    def answers(texts: list[str]) -> list[str]:
        rows = [each.tokens for each in source.encode_batch(texts, add_special_tokens=False)]
        found = translator.translate_batch(
            rows,
            max_batch_size=32,
            beam_size=beams,
            max_decoding_length=predictor.allowed.longest,
            max_input_length=0,
            return_scores=True,
            **penalty,
        )
        numbers = [[target.token_to_id(token) for token in each.hypotheses[0]] for each in found]
        return target.decode_batch(numbers)

    return answers


def table(run: Path, split: str, beams: int, alone: int, turns: int) -> None:
    """Prints a row for each system."""
    overrides = [
        f"decoding.name={'beam' if beams > 1 else 'greedy'}",
        *([f"decoding.size={beams}"] * (beams > 1)),
    ]
    encoded, _ = load(run, overrides=overrides, device="cpu").read(split)
    texts = [str(encoded.input(row)) for row in range(len(encoded))]
    systems: dict[str, Answers] = {}
    for name, engine in ENGINES.items():
        try:
            systems[name] = ours(run, overrides, engine)
        except PlugformerError as error:
            print(f"{name}: {str(error).splitlines()[0]}")
    for kind in ("float32", "int8"):
        systems[f"CTranslate2 itself, {kind}"] = direct(run, overrides, beams, kind)
    print(f"\n{beams} beams, {split}: {len(texts):,} texts as one call, {alone} one by one\n")
    print("| system | batches, s | to itself | one by one, ms | to itself | answers as torch |")
    print("| --- | --- | --- | --- | --- | --- |")
    taken: dict[tuple[str, str], list[float]] = {}
    given: dict[str, list[str]] = {}
    for _ in range(turns):
        for name, answer in systems.items():
            started = time.process_time()
            given[name] = answer(texts)
            between = time.process_time()
            for text in texts[:alone]:
                answer([text])
            taken.setdefault((name, "batches"), []).append(between - started)
            taken.setdefault((name, "one by one"), []).append(time.process_time() - between)
    for name in systems:
        itself = "CTranslate2 itself, " + ("int8" if "int8" in name else "float32")
        cells = []
        for way, scale in (("batches", 1.0), ("one by one", 1000 / alone)):
            seconds = taken[name, way]
            ratio = statistics.median(b / a for a, b in zip(seconds, taken[itself, way], strict=True))
            cells += [f"{statistics.median(seconds) * scale:.2f}", f"{ratio:.2f}"]
        equal = sum(a == b for a, b in zip(given[name], given["torch"], strict=True)) / len(texts)
        print(f"| {name} | {' | '.join(cells)} | {equal:.1%} |")


def main() -> None:
    """Prints a table for each number of beams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--alone", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{processor()}; 1 thread")
    for beams in arguments.beams:
        table(arguments.run, arguments.split, beams, arguments.alone, arguments.turns)


if __name__ == "__main__":
    main()
