"""The probes of examples/probes: their answers, worked out from the words, and what a study reads off."""

import random
import sys
from itertools import pairwise
from math import log
from pathlib import Path

import pytest

PROBES = Path(__file__).parents[2] / "examples" / "probes"


@pytest.fixture
def probes(monkeypatch):
    monkeypatch.syspath_prepend(str(PROBES))
    from probes import generators

    yield generators
    for name in [name for name in sys.modules if name.split(".")[0] in ("probes", "reached")]:
        del sys.modules[name]


def value(expression: list[str], modulus: int) -> tuple[int, list[str]]:
    """Returns the value of an expression in prefix notation, and the words after it."""
    word, *rest = expression
    if word not in "+-*":
        return int(word), rest
    a, rest = value(rest, modulus)
    b, rest = value(rest, modulus)
    return {"+": a + b, "-": a - b, "*": a * b}[word] % modulus, rest


def recalled(words: list[str]) -> list[str]:
    found = {key: word for key, word in pairwise(words) if key[0] == "k" and word[0] == "v"}
    asked = [key for key, mark in pairwise(words) if mark == "?"]
    return [found[key] for key in asked]


def recalled_by_two(words: list[str]) -> list[str]:
    triples = {(a, b): c for a, b, c in zip(words, words[1:], words[2:], strict=False) if c[0] == "v"}
    return [triples[a, b] for a, b, c in zip(words, words[1:], words[2:], strict=False) if c == "?"]


def copied(words: list[str]) -> list[str]:
    return [word for word in words if word[0] == "s"]


def arrived(words: list[str]) -> list[str]:
    asked = words.index(next(word for word in words if word[0] == "h"))
    arrows, answers = dict(zip(words[:asked:3], words[1:asked:3], strict=True)), []
    for steps, node in zip(words[asked::3], words[asked + 1 :: 3], strict=True):
        for _ in range(int(steps[1:])):
            node = arrows[node]
        answers.append(node)
    return answers


ANSWERS = {
    "Recall": recalled,
    "NoisyRecall": recalled,
    "FuzzyRecall": recalled_by_two,
    "SelectiveCopying": copied,
    "Compression": copied,
    "Induction": lambda words: [words[words.index("mark") + 1]],
    "Hops": arrived,
    "Arithmetic": lambda words: [str(value(words[:-1], 23)[0])],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_right(probes, name: str) -> None:
    draw, probe = random.Random(3), getattr(probes, name)()
    for _ in range(20):
        words, answers = probe.example(draw)
        assert answers == ANSWERS[name](words)
        assert words.count("?") == len(answers)


def test_a_sentence_has_one_start_symbol(probes) -> None:
    grammar, draw = probes.Grammar(depth=3), random.Random(3)
    parent = [
        {pair: symbol for symbol, pairs in enumerate(rules) for pair in pairs} for rules in grammar._rules
    ]
    assert all(len(pairs) == grammar.symbols**2 for pairs in parent)  # no pair comes from two symbols
    for _ in range(20):
        words, answers = grammar.example(draw)
        symbols = [int(word[1:]) for word in words[:-1]]
        for pairs in reversed(parent):
            symbols = [pairs[pair] for pair in zip(symbols[::2], symbols[1::2], strict=True)]
        assert answers == [f"r{symbols[0]}"]


def test_facts_are_the_same_in_all_splits(probes) -> None:
    rows = probes.Capacity(facts=20, size=300, held_out=300).load(())
    facts = [{(tuple(row["words"]), *row["answers"]) for row in rows[name]} for name in ("train", "test")]
    assert facts[0] == facts[1]
    assert len(facts[0]) == len({words for words, _ in facts[0]}) == 20


def test_a_stream_does_not_end(probes) -> None:
    probe = probes.Recall(size=3, held_out=2)
    stream = iter(probe.stream(())["train"])
    first = [next(stream)["words"] for _ in range(9)]
    assert first[:3] == probe.load(())["train"]["words"]
    assert len({tuple(words) for words in first}) == 9


def test_the_difficulty_reached_is_read_off_between_two(probes, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(PROBES))
    from reached import described

    half = {4.0: 1.0, 16.0: 0.8}
    assert described([half]) == "8"
    assert described([half, {4.0: 0.95, 16.0: 0.85}]) == "8 [8, 8]"
    assert described([{4.0: 0.5, 16.0: 0.1}] * 2) == "< 4"
    assert described([{4.0: 1.0, 16.0: 0.9}] * 2) == ">= 16"
    assert described([half, {4.0: 1.0, 16.0: 1.0}]) == "8, >= 16"
    assert described([half, {4.0: 0.5, 16.0: 1.0}]) == "< 4, 8"
    assert described([{4.0: 1.0, 16.0: 0.8, 64.0: 1.0}]) == "8"


def test_bits_a_parameter_are_those_that_the_loss_leaves(probes, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(PROBES))
    from reached import bits_a_parameter

    arm = {"task": {"data": {"facts": 100, "values": 64}}, "cost": {"parameters": 300}}
    assert bits_a_parameter(arm, [0.0]) == "2.000"
    assert bits_a_parameter(arm, [log(64)] * 2) == "0.000 ± 0.000"
    assert bits_a_parameter(arm, [log(8)]) == "1.000"
