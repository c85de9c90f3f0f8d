"""Numbers beyond any use, and texts without end: refused with their place and what is allowed, at once."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.problems import MOST, Problem, report
from plugformer.registry import Registry
from plugformer.validation import validate

LARGEST = str(2**63 - 1)


def refusal(registry: Registry, *settings: str, task: str = "copying") -> str:
    with pytest.raises(PlugformerError) as caught:
        validate(resolve(task, settings, registry))
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.split={validation: 2, seed: -1}"], "data.split.seed: expected at least 0, found -1"),
        (["training.seed=-1"], "training.seed: expected at least 0, found -1"),
        (["training.replicate=-1"], "training.replicate: expected at least 0, found -1"),
        (["training.steps=0x7fffffffffffffff"], "training.steps: expected at most 2147483647, found"),
        ([f"training.batch_tokens={LARGEST}"], "training.batch_tokens: expected at most 2147483647, found"),
        ([f"data.streaming={{buffer: {LARGEST}}}"], "data.streaming.buffer: expected at most 2147483647"),
        (
            [f"data.streaming={{tokenizer_examples: {LARGEST}}}"],
            "data.streaming.tokenizer_examples: expected at most 2147483647",
        ),
        (["data.padding=1000000000"], "data.padding: expected 'batch' or at most 1048576, found 1000000000"),
        (["data.size=1000000000"], "data.size: expected at most 100000000, found 1000000000"),
        (["data.numbers=1000000000"], "data.numbers: expected at most 100000, found 1000000000"),
        (["data.symbols=1000000000"], "data.symbols: expected at most 1000000, found 1000000000"),
        ([f"tokenizer={{name: bpe, size: {LARGEST}}}"], "tokenizer.size: expected at most 1048576, found"),
        (
            [f"tokenizer={{name: unigram, size: {LARGEST}}}"],
            "tokenizer.size: expected at most 1048576, found",
        ),
        ([f"tokenizer={{name: wordpiece, size: {LARGEST}}}"], "tokenizer.size: expected at most 1048576"),
        (["model.layers=10000"], "model.layers: expected at most 1000, found 10000"),
        (["decoding.max_length=source+1e30"], "max_length: expected a whole number or source+NUMBER"),
        (
            [f"decoding.max_length=source+{'9' * 5000}"],
            "max_length: expected a whole number or source+NUMBER, found 'source+99",
        ),
        (
            ["decoding={name: sampling, temperature: 1e39}"],
            "temperature: expected at most 1000000, found 1e+39",
        ),
        (
            ["decoding={name: sampling, temperature: 1e-39}"],
            "temperature: expected at least 1e-06, found 1e-39",
        ),
        (["decoding={name: sampling, top_p: 1e-320}"], "top_p: expected at least 1e-09, found 1e-320"),
        ([f"decoding={{name: beam, size: {LARGEST}}}"], "decoding.size: expected at most 1024, found"),
        (
            ["decoding.pattern='a{99999999999}'"],
            "decoding.pattern: 'a{99999999999}' is not a regular expression",
        ),
        (
            ["decoding.pattern=" + "(" * 2000 + "a" + ")" * 2000],
            "((... is not a regular expression: it is nested too deeply",
        ),
    ],
)
def test_what_training_could_not_do_is_refused_before(
    registry: Registry, settings: list[str], message: str
) -> None:
    found = refusal(registry, *settings)
    assert message in found
    assert len(found) < 2000


@pytest.mark.parametrize(
    "settings",
    [
        [f"training.seed={LARGEST}", f"training.replicate={LARGEST}"],
        [f"tokenizer={{name: bpe, size: 1048576, min_frequency: {LARGEST}}}"],
        [f"tokenizer={{name: words, max_size: {LARGEST}}}"],
        ["data.numbers=100000", "data.symbols=1000000"],
    ],
)
def test_large_numbers_that_say_no_limit_are_allowed(registry: Registry, settings: list[str]) -> None:
    validate(resolve("copying", settings, registry))


def test_a_long_chain_of_files_ends(write, base, registry: Registry) -> None:
    for number in range(300):
        write(f"{number}.yaml", f"extends: ./{number - 1}.yaml\n" if number else "extends: base.yaml\n")
    with pytest.raises(ConfigurationError, match="more than 100 files extend one another"):
        resolve("299.yaml", registry=registry)


def test_thousands_of_mistakes_are_counted_and_the_first_are_shown(write, base, registry: Registry) -> None:
    write("top.yaml", "extends: base.yaml\n" + "".join(f"k{number}: 1\n" for number in range(2000)))
    with pytest.raises(ConfigurationError) as caught:
        resolve("top.yaml", registry=registry)
    lines = [line for line in str(caught.value).splitlines() if not line.startswith(" ")]
    assert len(lines) == MOST + 1
    assert lines[0].startswith("top.yaml:2:1  k0: unknown key")
    assert lines[-1] == f"... and {2000 - MOST:,} more"


def test_no_message_quotes_a_long_argument_in_full(registry: Registry) -> None:
    long = "x" * 100_000
    for setting in (
        long,
        f"{long}=1",
        f"description=[{long}]",
        f"model.attention={long}",
        f"training.monitor={long}",
    ):
        assert len(refusal(registry, setting)) < 3000


def test_a_line_of_a_report_is_cut() -> None:
    assert len(report([Problem(None, ("a" * 5000,), "b" * 5000, "c" * 5000)])) < 3000
