"""Exceptions of parts at run time: the part and the line in its file are named."""

import pytest

from plugformer.callbacks import HookManager, load_callbacks
from plugformer.configuration import resolve
from plugformer.configuration.resolving import check_components
from plugformer.experiment import Experiment
from plugformer.faults import cause_of
from plugformer.interfaces import Batch, Schedule
from plugformer.model import Sizes, build
from plugformer.registry import Kind

PARTS = """
import sys

from plugformer.interfaces import FeedForward


class Raises(FeedForward):
    def __init__(self, model, *, leave: bool = False) -> None:
        super().__init__()
        self.leave = leave

    def forward(self, x, context):
        if self.leave:
            sys.exit(0)
        return {}["missing"]
"""
HOOKS = """
import sys

from plugformer.hooks import hookimpl

@hookimpl
def run_ended(run):
    sys.exit(0)

def must():
    return {}["missing"]
"""
MANIFEST = """
components:
  feed_forward: {raises: {class: "parts_of_fault_tests:Raises"}}
callbacks: [hooks_of_fault_tests]
"""


@pytest.fixture(scope="module")
def parts(registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "parts_of_fault_tests.py").write_text(PARTS)
    (folder / "hooks_of_fault_tests.py").write_text(HOOKS)
    (folder / "registry.yaml").write_text(MANIFEST)
    return registry.with_local(folder / "registry.yaml")


def caught(action) -> BaseException:
    with pytest.raises(BaseException) as found:
        action()
    return found.value


@pytest.mark.parametrize(
    ("options", "error"), [("raises", "KeyError"), ("{name: raises, leave: true}", "SystemExit")]
)
def test_the_part_and_the_line_are_named(parts, sentences, short_settings, options, error):
    settings = short_settings(f"model.decoder.feed_forward={options}")
    task = check_components(resolve("dates", settings, parts)).task
    model = build(Experiment.of(task, parts).spec, Sizes(12, 12))
    batch = Batch(sentences(), target=sentences(begin=True))
    first, second = cause_of(caught(lambda: model(batch))).splitlines()
    assert first.startswith(f"feed_forward 'raises' (local) failed: {error}")
    assert "parts_of_fault_tests.py:" in second


def test_an_error_that_comes_from_no_part_has_no_cause():
    assert cause_of(caught(lambda: 1 / 0)) is None


def test_a_hook_that_leaves_is_switched_off_and_one_that_must_not_fail_is_named(parts):
    notices = []
    (module,) = [
        hook
        for hook in load_callbacks(parts.entries("callbacks"), notices.append)
        if "fault" in hook.__name__
    ]
    HookManager([module], notices.append).call("run_ended", run=None)
    assert "run_ended" in notices[0]
    assert "SystemExit" in notices[0]
    cause = cause_of(caught(lambda: module.must()))
    assert cause.startswith("callbacks 'hooks_of_fault_tests' (local) failed")


def test_a_class_of_the_session_is_named_for_its_own_code_alone(registry):
    class Failing(Schedule):
        def factor(self, step, *, steps, width):
            return {}["missing"]

    session = registry.with_components({"schedule": {"failing": Failing}})
    schedule = session.create(Kind.SCHEDULE, "failing")
    cause = cause_of(caught(lambda: schedule.factor(1, steps=1, width=1)))
    assert cause.startswith("schedule 'failing' (session) failed: KeyError")
    assert cause_of(caught(lambda: 1 / 0)) is None
