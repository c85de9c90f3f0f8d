"""Running checks: reports, expected failures, skips with reasons, smallest cases, notebooks and pytest."""

import random
import sys
from types import ModuleType

import pytest
import torch
from tests.testing.mutants import after

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import ModelContext, Schedule
from plugformer.registry import Kind
from plugformer_plugins.attention.grouped import GroupedQueryAttention, MultiHeadAttention
from plugformer_plugins.feed_forward.networks import GELU
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.schedule.warmup import Constant
from plugformer_testing import CheckReport, Outcome, Status, check, contract_tests, require
from plugformer_testing.contract import Check, NotApplicable
from plugformer_testing.runner import checks_of, run_check
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


def tried(function, cases=(None,)):
    return run_check(Subject.of(Constant), Check(function, cases))


def ended(report, status):
    return [outcome.check for outcome in report.of(status)]


def test_a_failure_is_reported_and_the_others_run():
    report = check(StartsAtZero)
    assert not report
    assert ended(report, Status.FAILED) == [CHECK]
    assert report.summary() == "2 of 3 checks passed, 1 failed"
    assert (report.component, report.distribution) == ("schedule/StartsAtZero", "local")
    for shown in (repr(report), str(report), report._repr_html_()):
        assert "schedule/StartsAtZero" in shown
        assert CHECK in shown


@pytest.mark.parametrize(
    ("component", "method", "change", "named"),
    [
        (MultiHeadAttention, "forward", lambda found: (found, None), "tuple"),
        (MultiHeadAttention, "forward", lambda found: found[..., None], "(3, 5, 24, 1)"),
        (GELU, "forward", lambda found: found[:, :1], "(3, 1, 24)"),
        (LanguageModel, "logits", lambda found: found[..., 1:], "(3, 5, 6)"),
    ],
)
def test_what_cannot_run_is_reported_once(component, method, change, named):
    mutant = after("Mutant", component, **{method: lambda self, found, *_: change(found)})
    report = check(mutant)
    first, *others = report.outcomes
    assert (first.check, first.status) == ("constructs", Status.FAILED)
    assert named in first.message
    assert {outcome.status for outcome in others} == {Status.SKIPPED}
    assert "constructs" in others[0].message


def test_a_head_is_told_what_it_does_not_declare():
    mutant = after("Mutant", LanguageModel, logits=lambda self, found, hidden, at: found + at.memory.sum())
    assert "memory, which `reads` does not name" in check(mutant).outcomes[0].message


def test_a_class_is_checked_that_is_defined_in_a_function_or_a_notebook(monkeypatch):
    class Local(Constant):
        pass

    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec(NOTEBOOK, notebook.__dict__)  # noqa: S102 (a cell of a notebook)
    assert check(Local)
    report = check(notebook.Mine, only="shapes")
    assert (report.passed, report.component) == (True, "feed_forward/Mine")


def test_some_checks_of_an_installed_component():
    report = check("norm/rms_norm", options={"epsilon": 0.001}, only=["shapes", "constructs"])
    assert [outcome.check for outcome in report.outcomes] == ["shapes", "constructs"]
    with pytest.raises(RegistryError, match=r"'shpaes'.*'shapes'"):
        check("norm/rms_norm", only="shpaes")


def test_a_distribution_is_reported_as_a_whole(tmp_path, monkeypatch):
    module = "from plugformer_plugins.schedule.warmup import Constant as Fine"
    (tmp_path / "own_schedules.py").write_text(module)
    classes = "fine: {class: 'own_schedules:Fine'}, missing: {class: 'own_schedules:Missing'}"
    (tmp_path / "registry.yaml").write_text(f"components: {{schedule: {{{classes}}}}}")
    monkeypatch.setenv("PLUGFORMER_REGISTRY", str(tmp_path / "registry.yaml"))
    report = check("local")
    assert [bool(component) for component in report.components] == [True, False]
    assert ended(report, Status.FAILED) == ["loads"]
    assert "has no 'Missing'" in repr(report)
    with pytest.raises(ConfigurationError, match="KIND/NAME"):
        check("local", options={"power": 1})


def test_a_declared_failure_keeps_its_reason():
    report = check(StartsAtZero, expected_failures={CHECK: "the first update only warms up"})
    (expected,) = report.of(Status.EXPECTED_FAILURE)
    assert expected.message.startswith("the first update only warms up (the factor of update 1 of 2 is zero")
    assert report


def test_a_wrong_declaration_fails():
    report = check(StartsAtZero, expected_failures={"factors_are_numbers": "slow"})
    assert "declared to fail (slow)" in report.of(Status.FAILED)[0].message
    with pytest.raises(RegistryError, match="'factors_are_numbers'"):
        check(Constant, expected_failures={"factors_are_nubmers": "?"})


def test_where_options_may_decide_a_declared_failure_may_pass():
    declared = {CHECK: "it may warm up"}
    assert ended(check(MayWarmUp, expected_failures=declared), Status.EXPECTED_FAILURE) == []
    failing = check(MayWarmUp, options={"warm_up": True}, expected_failures=declared)
    assert failing
    assert ended(failing, Status.EXPECTED_FAILURE) == [CHECK]


def test_an_exception_is_reported_with_its_line_in_the_components_own_file():
    class Raises(Schedule):
        def factor(self, step, *, steps, width):
            return torch.zeros(1)[int(step)]

    outcome = check(Raises).outcomes[0]
    assert "raised IndexError: index " in outcome.message
    assert outcome.message.endswith("(factor)")
    assert f", in {__file__}:" in outcome.message
    assert outcome.traceback.startswith("Traceback (most recent call last)")


def test_without_a_required_option_nothing_runs_and_the_report_gives_the_reason():
    report = check(NeedsPower)
    assert report.summary() == "PARTIAL: 0 of 3 checks ran"
    assert all("power" in outcome.message for outcome in report.outcomes)
    assert check(NeedsPower, options={"power": 0.5}).summary() == "3 of 3 checks passed"


def test_sizes_that_do_not_suit_an_option_can_be_changed():
    options, only = {"kv_heads": 3}, ["constructs", "every_real_token_is_read"]
    refused = check(GroupedQueryAttention, options=options, only=only)
    assert ended(refused, Status.FAILED) == ["constructs"]
    assert "kv_heads 3 does not divide 4 heads" in repr(refused)
    model = ModelContext(width=24, heads=6, ffn_width=20, max_length=16)
    assert check(GroupedQueryAttention, options=options, model=model, only=only)


def test_the_first_failing_case_is_reported():
    found = tried(lambda subject, case: require.that(case < 3, "too large"), (1, 2, 3, 4))
    assert (found.status, found.message, found.case) == (Status.FAILED, "too large", "3")


def test_a_skip_has_a_reason_and_a_case_that_applies_is_enough():
    def function(subject, case):
        if case == "no":
            raise NotApplicable("it has no heads")

    assert tried(function, ("no", "no")).message == "it has no heads"
    assert tried(function, ("no", "yes")).status is Status.PASSED


@pytest.mark.parametrize("error", [SystemExit(3), ZeroDivisionError("by zero"), RecursionError()])
def test_any_exception_of_a_component_is_a_failure(error):
    def function(subject):
        raise error

    found = tried(function)
    assert found.status is Status.FAILED
    assert found.message.startswith(f"raised {type(error).__name__}: ")


def test_a_check_is_repeatable_and_does_not_affect_the_caller():
    torch.manual_seed(3)
    before, threads, drawn = torch.get_rng_state(), torch.get_num_threads(), []
    for _ in range(2):
        tried(lambda subject: drawn.append(torch.randn(3)))
    assert torch.equal(*drawn)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_class_that_is_no_component_is_refused():
    with pytest.raises(RegistryError, match=r"random\.Random"):
        check(random.Random)


@pytest.mark.parametrize("kind", Kind)
def test_every_check_has_a_sentence(kind):
    checks = checks_of(kind)
    assert checks
    assert len({found.name for found in checks}) == len(checks)
    assert all(found.function.__doc__.rstrip().endswith(".") for found in checks)


test_contract = contract_tests("norm/rms_norm", options={"epsilon": 0.001})


def test_contract_tests_end_as_the_checks_do():
    declared = contract_tests(StartsAtZero, expected_failures={CHECK: "it warms up"})
    names = declared.pytestmark[0].args[1]
    assert names == [found.name for found in checks_of(Kind.SCHEDULE)]
    declared("factors_are_numbers")
    with pytest.raises(pytest.xfail.Exception, match="it warms up"):
        declared(CHECK)
    with pytest.raises(pytest.fail.Exception, match=rf"schedule/StartsAtZero: {CHECK}: .*smallest case: 2"):
        contract_tests(StartsAtZero)(CHECK)
    with pytest.raises(pytest.skip.Exception, match="power"):
        contract_tests(NeedsPower)(CHECK)


@pytest.mark.parametrize(
    ("counts", "summary"),
    [
        ({"passed": 23}, "23 of 23 checks passed"),
        ({"passed": 22, "failed": 1}, "22 of 23 checks passed, 1 failed"),
        ({"passed": 22, "expected failure": 1}, "22 of 23 checks passed, 1 failed as declared"),
        ({"passed": 5, "skipped": 18}, "PARTIAL: 5 of 23 checks ran, none of them failed"),
        ({"passed": 4, "failed": 1, "skipped": 18}, "PARTIAL: 5 of 23 checks ran, 1 failed"),
    ],
)
def test_the_summary_tells_full_from_partial(counts, summary):
    statuses = (status for status, count in counts.items() for _ in range(count))
    outcomes = tuple(Outcome(check="shapes", status=Status(status), message="why") for status in statuses)
    report = CheckReport(component="norm/mine", distribution="mine", outcomes=outcomes)
    assert report.passed is ("failed" not in counts)
    record = report.as_json()
    assert (record["summary"], record["counts"]["checks"]) == (summary, 23)
