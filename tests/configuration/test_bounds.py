"""Numbers beyond any use and texts without end are refused at once, with their place and a short message."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer.yaml_tree import MOST, Problem, report

LARGEST = str(2**63 - 1)


def refusal(registry: Registry, *settings: str) -> str:
    with pytest.raises(PlugformerError) as caught:
        validate(resolve("copying", settings, registry))
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("data.split={validation: 2, seed: -1}", "data.split.seed: "),
        ("training.steps=0x7fffffffffffffff", "training.steps: "),
        ("data.padding=1000000000", "data.padding: "),
        (f"tokenizer={{name: bpe, size: {LARGEST}}}", "tokenizer.size: "),
        (f"decoding.max_length=source+{'9' * 5000}", "decoding.max_length: "),
        ("decoding={name: sampling, temperature: 1e39}", "decoding.temperature: "),
    ],
)
def test_numbers_beyond_any_use_are_refused(registry: Registry, setting: str, place: str) -> None:
    message = refusal(registry, setting)
    assert place in message
    assert len(message) < 2000


def test_thousands_of_mistakes_are_counted_and_the_first_are_shown(write, base, registry: Registry) -> None:
    write("top.yaml", "extends: base.yaml\n" + "".join(f"k{number}: 1\n" for number in range(2000)))
    with pytest.raises(ConfigurationError) as caught:
        resolve("top.yaml", registry=registry)
    lines = [line for line in str(caught.value).splitlines() if not line.startswith(" ")]
    assert len(lines) == MOST + 1
    assert lines[0].startswith("top.yaml:2:1  k0: unknown key")
    assert f"{2000 - MOST:,}" in lines[-1]


@pytest.mark.parametrize(
    "setting", ["{}", "{}=1", "description=[{}]", "model.attention={}", "training.monitor={}"]
)
def test_no_message_quotes_a_long_argument_in_full(registry: Registry, setting: str) -> None:
    assert len(refusal(registry, setting.format("x" * 100_000))) < 3000


def test_a_line_of_a_report_is_cut() -> None:
    assert len(report([Problem(None, ("a" * 5000,), "b" * 5000, "c" * 5000)])) < 3000
