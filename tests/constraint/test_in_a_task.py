"""Constraints that a task names: the built-in one in its short form, and those of others."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import AllowedTokens, Constraint
from plugformer.registry import Kind
from plugformer.runs.loading import allowed_outputs
from plugformer.runs.lockfile import components
from plugformer.validation import validate
from plugformer_plugins.tokenizer.word_level import Characters

DATE = "[0-9]{4}-[0-9]{2}"


class Digits(Constraint):
    """Outputs of digits, at least so many of them."""

    def __init__(self, *, least: int = 1) -> None:
        self.least = least

    def compile(self, tokenizer, shortest, longest):
        if longest < self.least:
            raise ConfigurationError(f"{self.least} digits are more than {longest}")
        return AllowedTokens


def test_the_short_form_of_the_built_in_one_is_locked():
    task = resolve("dates", [f"decoding.pattern='{DATE}'"]).task
    block = task.decoding.output_constraint
    assert (block.name, block.options) == ("plugformer:pattern", {"expression": DATE})
    assert (Kind.CONSTRAINT, "plugformer:pattern") in components(task)


def test_a_class_of_the_session_constrains_outputs():
    tokenizer = Characters()
    tokenizer.train(["0123456789-"])
    settings = {"extends": "dates", "decoding": {"constraint": (Digits, {"least": 3})}}
    experiment = Experiment.from_resolved(resolve(settings))
    assert allowed_outputs(experiment, tokenizer).begin is AllowedTokens
    assert (Kind.CONSTRAINT, "session:Digits") in components(experiment.task)
    short = Experiment.from_resolved(resolve(settings, ["decoding.max_length=2"]))
    with pytest.raises(ConfigurationError, match=r"decoding.constraint: 3 digits are more than 2"):
        allowed_outputs(short, tokenizer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([f"decoding.pattern='{DATE}'", "decoding.constraint=pattern"], r"decoding: pattern and constraint"),
        (["decoding.constraint=patern"], r"unknown constraint 'patern' \(did you mean 'pattern'"),
        (["decoding.constraint={name: pattern, expression: '[0-9'}"], r"decoding.constraint: '\[0-9' is not"),
        (["decoding.pattern='[0-9'"], r"decoding.pattern: '\[0-9' is not a regular expression"),
    ],
)
def test_mistakes_have_a_place(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        validate(resolve("dates", settings), data=False)
