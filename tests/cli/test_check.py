"""`plugformer check`: what it prints and returns."""

import pytest

SCHEDULES = """
from plugformer.interfaces import Schedule

class Sound(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0

class Faulty(Schedule):
    def factor(self, step, *, steps, width):
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
    assert "schedule/faulty  2 of 3 checks passed, 1 failed  (local)\n" in outcome.out
    assert (
        "failed  only_the_last_update_may_stand_still: the factor of update 1 of 2 is zero: "
        "nothing is learned there [smallest case: 2]" in outcome.out
    )


def test_failures_declared_in_the_manifest_are_no_failures(run, local):
    outcome = run("check", "schedule/declared", "--registry", local)
    assert outcome.status == 0
    assert "2 of 3 checks passed, 1 failed as declared" in outcome.out
    assert "expected failure  only_the_last_update_may_stand_still: it warms up (the factor" in outcome.out


def test_a_distribution_is_checked_whole_whatever_is_wrong_with_one(run, local):
    outcome = run("check", "local", "--registry", local)
    assert outcome.status == 1
    names = [line.split()[0] for line in outcome.out.splitlines() if line.startswith("schedule/")]
    assert names == [f"schedule/{name}" for name in ("declared", "faulty", "missing", "powered", "sound")]
    assert "schedule/missing   0 of 1 checks passed, 1 failed" in outcome.out
    assert "failed  loads: schedule 'missing' (local): module local_schedules has no 'Missing'" in outcome.out
    assert "schedule/powered   PARTIAL: 0 of 3 checks ran" in outcome.out
    assert "skipped  all: needs a value for power, which has no default" in outcome.out
    assert "5 components: PARTIAL: 10 of 13 checks ran, 2 failed, 1 failed as declared" in outcome.out


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


def test_an_exception_is_shown_with_its_line_and_on_demand_with_its_traceback(run, local, tmp_path):
    arguments = ("check", "schedule/powered", "--set", "power=2", "--registry", local)
    brief = run(*arguments).out
    line = SCHEDULES.splitlines().index("    return [1.0][int(power > 1)]") + 1
    place = f"{tmp_path / 'local_schedules.py'}:{line} (_scaled)"
    assert f"raised IndexError: list index out of range, in {place}" in brief
    assert "Traceback" not in brief
    assert "        Traceback (most recent call last):\n" in run(*arguments, "--traceback").out


def test_commands_and_hooks_that_cannot_be_imported_are_reported_with_the_cause(run, manifest):
    entries = "commands: {fine: 'own_parts:fine', bad: 'own_parts:absent'}\n"
    file = manifest(entries + "hooks: [no_such_module]", own_parts="def fine(): pass")
    outcome = run("check", "local", "--registry", str(file))
    assert outcome.status == 1
    assert "command/fine" in outcome.out
    assert "importing own_parts:absent failed: AttributeError" in outcome.out
    assert "importing no_such_module failed: ModuleNotFoundError" in outcome.out
