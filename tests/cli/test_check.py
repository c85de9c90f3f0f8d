"""`plugformer check`: what it prints and returns."""

import sys

import pytest

SCHEDULES = """
import logging
from plugformer.interfaces import Schedule

log = logging.getLogger("local_schedules")
log.setLevel("DEBUG")  # as that of torch.export is, with a thousand lines

class Sound(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0

class Faulty(Schedule):
    def factor(self, step, *, steps, width):
        log.debug("noise")
        return (step - 1) / steps

class Powered(Sound):
    def __init__(self, *, power: float) -> None:
        self.power = power

    def factor(self, step, *, steps, width):
        return _scaled(self.power)

def _scaled(power):
    return [1.0][int(power > 1)]
"""

MANIFEST = """
components:
  schedule:
    declared:
      class: "local_schedules:Faulty"
      expected_failures: {only_the_last_update_may_stand_still: it warms up}
    faulty: {class: "local_schedules:Faulty"}
    missing: {class: "local_schedules:Missing"}
    powered: {class: "local_schedules:Powered"}
    sound: {class: "local_schedules:Sound"}
"""


@pytest.fixture
def local(manifest):
    return str(manifest(MANIFEST, local_schedules=SCHEDULES))


def test_a_faulty_one_ends_with_status_1_and_the_smallest_case(run, local):
    outcome = run("check", "schedule/faulty", "--registry", local)
    assert outcome.status == 1
    name = "schedule/faulty::only_the_last_update_may_stand_still"
    message = "the factor of update 1 of 2 is zero: nothing is learned there [smallest case: 2]"
    assert f"FAILED {name} - Failed: {message}\n" in outcome.out
    assert "1 failed, 2 passed" in outcome.out
    assert "noise" not in outcome.out


def test_a_distribution_is_checked_whole_whatever_is_wrong_with_one(run, local):
    outcome = run("check", "local", "--registry", local)
    assert outcome.status == 1
    printed = " ".join(outcome.out.split())
    assert "schedule/declared::only_the_last_update_may_stand_still XFAIL (it warms up)" in printed
    assert "FAILED schedule/missing::loads - Failed: schedule 'missing' (local): module local" in outcome.out
    assert "needs a value for power, which has no default" in printed
    assert "2 failed, 7 passed, 3 skipped, 1 xfailed" in outcome.out


def test_pytest_takes_the_arguments_after_two_hyphens(run, local, tmp_path):
    file = tmp_path / "checks.xml"
    arguments = ("-k", "factors_are_numbers", f"--junitxml={file}")
    outcome = run("check", "schedule/faulty", "--registry", local, "--", *arguments)
    assert outcome.status == 0
    assert "1 passed, 2 deselected" in outcome.out
    assert 'classname="schedule.faulty" name="factors_are_numbers"' in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule/soudn"], "unknown schedule 'soudn' (did you mean 'sound'?)"),
        (["plugformr"], "no distribution 'plugformr' offers components (did you mean 'plugformer'?)"),
        (["powered"], "no distribution 'powered' offers components (did you mean 'schedule/powered'?)"),
        (["norm"], "no distribution 'norm' offers components (did you mean 'norm/layer_norm'?)"),
        (["local", "--set", "power=1"], "options are for one component: name it as KIND/NAME"),
        (["schedule/powered", "--set", "power=high"], "schedule/powered: option power"),
        (["schedule/sound", "--set", "power"], "expected KEY=VALUE"),
    ],
)
def test_mistakes(run, local, arguments, message):
    outcome = run("check", *arguments, "--registry", local)
    assert outcome.status == 2
    assert message in outcome.err


def test_without_pytest_the_extra_is_named(run, local, monkeypatch):
    monkeypatch.setitem(sys.modules, "plugformer_testing.checks", None)
    outcome = run("check", "local", "--registry", local)
    assert outcome.status == 2
    assert "pip install 'plugformer[test]'" in outcome.err


def test_an_exception_is_shown_from_the_check_to_its_line(run, local, tmp_path):
    printed = run("check", "schedule/powered", "--set", "power=2", "--registry", local).out
    line = SCHEDULES.splitlines().index("    return [1.0][int(power > 1)]") + 1
    assert f"local_schedules.py:{line}: in _scaled" in printed
    assert "E   IndexError: list index out of range" in printed
    assert "_pytest" not in printed


def test_commands_and_hooks_that_cannot_be_imported_are_reported_with_the_cause(run, manifest):
    entries = "commands: {fine: 'own_parts:fine', bad: 'own_parts:absent'}\n"
    file = manifest(entries + "callbacks: [no_such_module]", own_parts="def fine(): pass")
    outcome = run("check", "local", "--registry", str(file))
    assert outcome.status == 1
    assert "command/fine::loads PASSED" in outcome.out
    assert "command/bad::loads - AttributeError" in outcome.out
    assert "no_such_module::loads - ModuleNotFoundError" in outcome.out
