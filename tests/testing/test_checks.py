"""Running checks: as tests of pytest, in a notebook, with options and expected failures."""

import random
import sys
from types import ModuleType

import pytest
import torch
from tests.testing.mutants import after
from tests.testing.outcomes import outcomes, unsound

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import ModelContext, Schedule
from plugformer_plugins.attention.grouped import GroupedQueryAttention, MultiHeadAttention
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.schedule.warmup import Constant
from plugformer_testing import check, parametrize_with_checks, require
from plugformer_testing.contract import Check
from plugformer_testing.subject import Subject


class StartsAtZero(Schedule):
    def factor(self, step, *, steps, width):
        return (step - 1) / steps


class NeedsPower(Schedule):
    def __init__(self, *, power: float) -> None:
        self.power = power

    def factor(self, step, *, steps, width):
        return step**-self.power


class MayWarmUp(StartsAtZero):
    def __init__(self, *, warm_up: bool = False) -> None:
        self.warm_up = warm_up

    def factor(self, step, *, steps, width):
        return super().factor(step, steps=steps, width=width) if self.warm_up else 1.0


CHECK = "only_the_last_update_may_stand_still"
NOTEBOOK = """
from plugformer_plugins.feed_forward.networks import GELU

class Mine(GELU):
    pass
"""


@parametrize_with_checks("norm/rms_norm", options={"epsilon": 0.001})
def test_an_installed_component_passes(check):
    check()


@parametrize_with_checks(StartsAtZero, expected_failures={CHECK: "it warms up"})
def test_a_declared_failure_is_expected(check):
    check()


def test_a_declared_failure_that_passes_is_a_wrong_declaration_without_options(capfd):
    declared = {"factors_are_numbers": "slow"}
    assert not check(StartsAtZero, expected_failures={**declared, CHECK: "it warms up"})
    assert "[XPASS(strict)] slow" in capfd.readouterr().out
    assert check(MayWarmUp, expected_failures=declared)
    with pytest.raises(RegistryError, match="'factors_are_numbers'"):
        check(Constant, expected_failures={"factors_are_nubmers": "?"})


@pytest.mark.parametrize(
    ("component", "method", "change", "named"),
    [
        (MultiHeadAttention, "forward", lambda found: (found, None), "tuple"),
        (LanguageModel, "logits", lambda found: found[..., 1:], "(3, 5, 6)"),
    ],
)
def test_what_cannot_run_is_said_once(component, method, change, named):
    mutant = after("Mutant", component, **{method: lambda self, found, *_: change(found)})
    first, *others = outcomes(mutant).values()
    assert first.startswith("failed: ")
    assert named in first
    assert set(others) == {"skipped: not run, since constructs failed"}


def test_a_class_is_checked_that_is_defined_in_a_function_or_a_notebook(monkeypatch):
    class Local(Constant):
        pass

    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec(NOTEBOOK, notebook.__dict__)  # noqa: S102 (a cell of a notebook)
    assert check(Local)
    assert check(notebook.Mine)


def test_without_a_required_option_nothing_runs_and_the_reason_is_given():
    assert all("needs a value for power" in outcome for outcome in unsound(NeedsPower).values())
    assert len(unsound(NeedsPower)) == 3
    assert not unsound(NeedsPower, options={"power": 0.5})


def test_sizes_that_do_not_suit_an_option_can_be_changed():
    options = {"kv_heads": 3}
    refused = outcomes(GroupedQueryAttention, options=options)["constructs"]
    assert "kv_heads 3 does not divide 4 heads" in refused
    model = ModelContext(width=24, heads=6, ffn_width=20, max_length=16)
    assert outcomes(GroupedQueryAttention, options=options, model=model)["constructs"] == "passed"


def test_a_class_without_an_interface_is_no_component():
    with pytest.raises(RegistryError, match="derive it from"):
        parametrize_with_checks(random.Random)


def tried(function, cases=(None,)):
    Check(function, cases)(Subject.of(Constant))


def test_the_first_failing_case_is_named():
    with pytest.raises(pytest.fail.Exception, match=r"^too large \[smallest case: 3\]$"):
        tried(lambda subject, case: require.that(case < 3, "too large"), (1, 2, 3, 4))
    with pytest.raises(ZeroDivisionError) as error:
        tried(lambda subject, case: 1 / case, (1, 0))
    assert error.value.__notes__ == ["smallest case: 0"]


def test_a_skip_has_a_reason_and_a_case_that_applies_is_enough():
    def function(subject, case):
        if case == "no":
            raise ConfigurationError("it has no heads")

    tried(function, ("no", "yes"))
    with pytest.raises(pytest.skip.Exception, match="the component refuses it: it has no heads"):
        tried(function, ("no", "no"))


def test_a_check_is_repeatable_and_does_not_affect_the_caller():
    torch.manual_seed(3)
    before, threads, drawn = torch.get_rng_state(), torch.get_num_threads(), []
    for _ in range(2):
        tried(lambda subject: drawn.append(torch.randn(3)))
    assert torch.equal(*drawn)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
