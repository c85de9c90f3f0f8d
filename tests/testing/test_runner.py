"""Running checks: declared failures, skips with reasons, smallest cases, and pytest."""

import random

import pytest
import torch

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import ModelContext, Schedule
from plugformer.kinds import Kind
from plugformer_plugins.attention.grouped import GroupedQueryAttention
from plugformer_plugins.schedule.warmup import Constant
from plugformer_testing import Status, contract_tests, run
from plugformer_testing.check import Check, NotApplicable, Violation, fail, require_close
from plugformer_testing.runner import checks_of, outcome
from plugformer_testing.subject import Subject
from plugformer_testing.texts import Text


class StartsAtZero(Schedule):
    def factor(self, step, *, steps, width):
        return (step - 1) / steps


class NeedsPower(Schedule):
    def __init__(self, *, power: float) -> None:
        self.power = power

    def factor(self, step, *, steps, width):
        return step**-self.power


CHECK = "only_the_last_update_may_stand_still"


def tried(function, cases=(None,)):
    return outcome(Subject.of(Constant), Check(function, cases))


def test_a_failure_is_reported_and_the_others_run():
    report = run(StartsAtZero)
    assert [each.check for each in report.of(Status.FAILED)] == [CHECK]
    assert report.summary() == "3 of 4 checks passed, 1 failed"
    assert (report.subject, report.distribution) == ("schedule/StartsAtZero", "local")


def test_a_declared_failure_keeps_its_reason():
    report = run(StartsAtZero, expected_failures={CHECK: "the first update only warms up"})
    (expected,) = report.of(Status.EXPECTED_FAILURE)
    assert expected.message == (
        "the first update only warms up (the factor of update 1 of 2 is zero: nothing is learned there)"
    )
    assert report.passed


@pytest.mark.parametrize(
    ("component", "declared", "message"),
    [
        (StartsAtZero, {"any_width_works": "slow"}, "(slow), but it passes; remove the declaration"),
        (StartsAtZero, {CHECK: " "}, "declared to fail without a reason; give one"),
        (
            Constant,
            {"any_widht_works": "?"},
            "there is no check of that name (did you mean 'any_width_works'?)",
        ),
    ],
)
def test_a_wrong_declaration_fails(component, declared, message):
    failed = run(component, expected_failures=declared).of(Status.FAILED)
    assert message in " ".join(each.message for each in failed)


class Warms(Schedule):
    def __init__(self, *, warm_up: bool = False) -> None:
        self.warm_up = warm_up

    def factor(self, step, *, steps, width):
        return (step - 1) / steps if self.warm_up else 1.0


def test_where_options_may_decide_a_declared_failure_may_pass():
    declared = {CHECK: "it may warm up"}
    passing = run(Warms, expected_failures=declared)
    (noted,) = [each for each in passing.of(Status.PASSED) if each.message]
    assert noted.message == "declared to fail (it may warm up), but it passes with these options"
    assert passing.summary() == "4 of 4 checks passed"
    failing = run(Warms, options={"warm_up": True}, expected_failures=declared)
    assert failing.passed
    assert [each.check for each in failing.of(Status.EXPECTED_FAILURE)] == [CHECK]


def test_an_exception_says_where_in_the_components_own_files_it_was_raised():
    class Raises(Schedule):
        def factor(self, step, *, steps, width):
            return torch.zeros(1)[int(step)]

    outcome = run(Raises).outcomes[0]
    assert "raised IndexError: index " in outcome.message
    assert outcome.message.endswith("(factor)")
    assert f", in {__file__}:" in outcome.message
    assert outcome.traceback.startswith("Traceback (most recent call last)")


def test_without_a_required_option_nothing_runs_and_the_report_says_so():
    report = run(NeedsPower)
    assert report.summary() == "PARTIAL: 0 of 4 checks ran"
    assert {each.message for each in report.outcomes} == {
        "needs a value for power, which has no default: `--set power=...` or `options=` in `contract_tests` "
        "gives it"
    }
    assert run(NeedsPower, options={"power": 0.5}).summary() == "4 of 4 checks passed"


def test_a_wrong_option_is_an_error():
    with pytest.raises(ConfigurationError, match="power"):
        run(NeedsPower, options={"power": "much"})


def test_sizes_that_do_not_suit_an_option_can_be_changed():
    options = {"kv_heads": 3}
    refused = run(GroupedQueryAttention, options=options)
    assert [each.check for each in refused.of(Status.FAILED)] == ["constructs"]
    assert "kv_heads 3 does not divide 4 heads" in refused.of(Status.FAILED)[0].message
    model = ModelContext(width=24, heads=6, ffn_width=20, max_length=16)
    subject = Subject.of(GroupedQueryAttention, options=options, model=model)
    check = next(check for check in checks_of(Kind.ATTENTION) if check.name == "cached_steps_equal_the_whole")
    assert outcome(subject, check).status is Status.PASSED


def test_the_first_failing_case_is_reported():
    def function(subject, case):
        if case > 2:
            fail("too large")

    ended = tried(function, (1, 2, 3, 4))
    assert (ended.status, ended.message, ended.case) == (Status.FAILED, "too large", "3")


def test_a_failing_text_is_made_small():
    def function(subject, text):
        if "x" in text.value and "y" in text.value:
            fail("x and y")

    assert tried(function, (Text("aaxbb" * 30 + "yy"),)).case in ("'xy'", "'yx'")


def test_a_skip_says_why_and_a_case_that_applies_is_enough():
    def function(subject, case):
        if case == "no":
            raise NotApplicable("it has no heads")

    assert tried(function, ("no", "no")).message == "it has no heads"
    assert tried(function, ("no", "yes")).status is Status.PASSED


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (torch.zeros(2, 3), torch.ones(2, 3), r"Greatest absolute difference: 1\.0 at index \(0, 0\) .*"),
        (torch.tensor(2.0), torch.tensor(3.0), r"Absolute difference: 1\.0 .*"),
        (torch.zeros(2), torch.zeros(3), r".*shape.*"),
    ],
)
def test_a_difference_is_said_on_one_line(one, other, said):
    with pytest.raises(Violation, match=rf"^rows mix \({said}\)$"):
        require_close(one, other, "rows mix")


@pytest.mark.parametrize("error", [SystemExit(3), ZeroDivisionError("by zero"), RecursionError()])
def test_whatever_a_component_raises_is_a_failure(error):
    def function(subject):
        raise error

    ended = tried(function)
    assert ended.status is Status.FAILED
    assert ended.message.startswith(f"raised {type(error).__name__}: ")


def test_the_callers_random_numbers_and_threads_are_left_alone():
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    run(StartsAtZero)
    tried(lambda subject: str(torch.randn(5)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_run_is_repeatable():
    drawn = []
    tried(lambda subject: drawn.append(torch.randn(3)))
    tried(lambda subject: drawn.append(torch.randn(3)))
    assert torch.equal(*drawn)


def test_a_class_that_is_no_component_is_refused():
    with pytest.raises(RegistryError, match=r"random\.Random implements no kind of component"):
        run(random.Random)
    with pytest.raises(RegistryError, match="'mha' is not a component"):
        run("mha")


@pytest.mark.parametrize("kind", Kind)
def test_every_check_says_what_it_checks(kind):
    checks = checks_of(kind)
    assert checks
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.function.__doc__.rstrip().endswith(".") for check in checks)


test_contract = contract_tests("norm/rms_norm", options={"epsilon": 0.001})


def test_contract_tests_end_as_the_checks_do():
    declared = contract_tests(StartsAtZero, expected_failures={CHECK: "it warms up"})
    names = declared.pytestmark[0].args[1]
    assert names == [check.name for check in checks_of(Kind.SCHEDULE)]
    declared("any_width_works")
    with pytest.raises(pytest.xfail.Exception, match="it warms up"):
        declared(CHECK)
    with pytest.raises(pytest.fail.Exception, match=rf"schedule/StartsAtZero: {CHECK}: .*smallest case: 2"):
        contract_tests(StartsAtZero)(CHECK)
    with pytest.raises(pytest.skip.Exception, match="needs a value for power"):
        contract_tests(NeedsPower)(CHECK)
    with pytest.raises(RegistryError, match="no check 'speed'"):
        contract_tests(Constant, expected_failures={"speed": "slow"})
