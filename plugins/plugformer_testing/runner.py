"""Running contract checks against a component, also inside pytest: one test for each check."""

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

import plugformer
from plugformer.errors import ConfigurationError, RegistryError, described, nearest, raised_in
from plugformer.interfaces import ModelContext
from plugformer.model import random_stream
from plugformer.registry import Entry, Kind, checked_options, options_model, source_hash
from plugformer_testing.check import Check, NotApplicable, Violation
from plugformer_testing.result import Outcome, Report, Status
from plugformer_testing.subject import Subject
from plugformer_testing.texts import Text

_SIMPLER = 300
"""Simpler variants of a failing text that are tried at most."""


_MODULES: dict[Kind, tuple[str, ...]] = {
    Kind.POSITION: ("module", "position"),
    Kind.ATTENTION: ("module", "attention", "attention_masks", "attention_caching", "attention_weights"),
    Kind.HEAD: ("module", "head"),
    **dict.fromkeys((Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL), ("module", "tokenwise")),
}
"""Where the checks of a kind are, if not in one module of its name."""


def checks_of(kind: Kind) -> tuple[Check, ...]:
    """Returns the checks of a kind, in the order in which they run."""
    found = (each for name in _MODULES.get(kind, (kind,)) for each in checks_in(name))
    return tuple(each for each in found if not each.kinds or kind in each.kinds)


def checks_in(module: str) -> list[Check]:
    """Returns the checks that a module of this package defines, in order."""
    found = vars(import_module(f"plugformer_testing.{module}")).values()
    return [each for each in found if isinstance(each, Check)]


def find_check(kind: Kind, name: str) -> Check:
    """Returns a kind's check by name.

    Raises:
        RegistryError: There is none.
    """
    checks = {check.name: check for check in checks_of(kind)}
    if name not in checks:
        raise RegistryError(
            f"{kind} has no check {name!r}{nearest(name, checks)}\nknown: {', '.join(checks)}"
        )
    return checks[name]


def run(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Report:
    """Runs all checks of a component's kind.

    Args:
        component: `kind/name` of an installed one, or a class that implements a kind's interface.
        options: Its own options; needed if one has no default.
        model: Sizes of the model, where the component cannot work with those that the suite chooses.
        expected_failures: Names of checks that are known to fail, each with the reason.

    Raises:
        ConfigurationError: An option is unknown, of the wrong type or out of range.
        RegistryError: The component is unknown, in conflict or quarantined, or cannot be imported.
    """
    return report(Subject.of(component, options=options, model=model, expected_failures=expected_failures))


def contract_tests(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[[str], None]:
    """Returns a pytest test with one case for each check of a component's kind.

    A failing check fails with what is wrong and the smallest failing case; a skip and an expected failure
    carry their reasons.

    Example:
        `test_contract = contract_tests("attention/gqa", options={"kv_heads": 2})`

    Args:
        component: `kind/name` of an installed one, or a class that implements a kind's interface.
        options: Its own options; needed if one has no default.
        model: Sizes of the model, where the component cannot work with those that the suite chooses.
        expected_failures: Names of checks that are known to fail, each with the reason.

    Raises:
        RegistryError: The component is unknown, in conflict or quarantined, or cannot be imported; or an
            expected failure names no check.
    """
    import pytest  # `plugformer check` does without it

    subject = Subject.of(component, options=options, model=model, expected_failures=expected_failures)
    for name in subject.expected_failures:
        find_check(subject.kind, name)

    @pytest.mark.parametrize("check", [check.name for check in checks_of(subject.kind)])
    def test_contract(check: str) -> None:
        ended = outcome(subject, find_check(subject.kind, check))
        if ended.status is Status.SKIPPED:
            pytest.skip(ended.message)
        if ended.status is Status.EXPECTED_FAILURE:
            pytest.xfail(ended.message)
        if ended.status is Status.FAILED:
            pytest.fail(f"{path_of(subject.entry)}: {ended}", pytrace=False)

    return test_contract


def report(subject: Subject) -> Report:
    """Runs all checks of a subject's kind.

    Raises:
        ConfigurationError: An option is unknown, of the wrong type or out of range.
    """
    if not subject.missing_options:  # else checks are skipped
        checked_options(subject.component, subject.options, path_of(subject.entry))
    checks = {check.name: check for check in checks_of(subject.kind)}
    outcomes = [outcome(subject, check) for check in checks.values()]
    for name in (each for each in subject.expected_failures if each not in checks):
        message = f"declared to fail, but there is no check of that name{nearest(name, checks)}"
        outcomes.append(Outcome(check=name, status=Status.FAILED, message=message))
    return _report(subject.entry, outcomes, subject.options)


def unloadable(entry: Entry, error: RegistryError) -> Report:
    """Returns the report of a component whose class cannot be imported: all checks but that are skipped."""
    loading = Outcome(check="loads", status=Status.FAILED, message=str(error))
    why = "the component cannot be imported"
    names = (check.name for check in checks_of(Kind(entry.kind)))
    return _report(
        entry, [loading, *(Outcome(check=name, status=Status.SKIPPED, message=why) for name in names)], {}
    )


def _report(entry: Entry, outcomes: Iterable[Outcome], options: Mapping[str, Any]) -> Report:
    return Report(
        subject=path_of(entry),
        distribution=entry.distribution,
        version=entry.version,
        source=source_hash(entry),
        plugformer=plugformer.__version__,
        options=options,
        outcomes=tuple(outcomes),
    )


def path_of(entry: Entry) -> str:
    """Returns a component's `kind/name`."""
    return f"{entry.kind}/{entry.name}"


def outcome(subject: Subject, check: Check) -> Outcome:
    """Runs one check; random numbers and warnings of the caller are left as they were."""
    started, threads = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny, and waking threads takes longer than computing
    try:
        with random_stream(0, check.name), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended = _as_declared(subject, _tried(subject, check))
    finally:
        torch.set_num_threads(threads)
    return replace(ended, seconds=round(time.perf_counter() - started, 3))


def _tried(subject: Subject, check: Check) -> Outcome:
    """Returns the outcome of a check, whatever its author has declared."""
    if missing := subject.missing_options:
        advice = f"`--set {missing[0]}=...` or `options=` in `contract_tests` gives it"
        needed = f"needs a value for {', '.join(missing)}, which has no default: {advice}"
        return Outcome(check=check.name, status=Status.SKIPPED, message=needed)
    reasons: list[str] = []
    note = ""
    for case in check.cases:
        try:
            note = _try_on(subject, check, case) or note
        except NotApplicable as reason:
            reasons.append(str(reason))
        except Violation as violation:
            case, fault = _smallest(subject, check, case, violation)
            return Outcome(
                check=check.name,
                status=Status.FAILED,
                message=str(fault),
                case="" if case is None else str(case),
                traceback="".join(traceback.format_exception(fault.__cause__)) if fault.__cause__ else "",
            )
    if len(reasons) == len(check.cases):
        return Outcome(check=check.name, status=Status.SKIPPED, message=reasons[0])
    return Outcome(check=check.name, status=Status.PASSED, message=note)


def _try_on(subject: Subject, check: Check, case: Any) -> str | None:
    """Tries a check on a case and returns what it notes.

    Raises:
        NotApplicable: The case does not concern the component, or it refuses the case's sizes.
        Violation: Something is wrong.
    """
    try:
        return check.function(subject) if case is None else check.function(subject, case)
    except (Violation, NotApplicable, KeyboardInterrupt):
        raise
    except ConfigurationError as error:
        raise NotApplicable(f"the component refuses it: {error}") from error
    except BaseException as error:  # whatever a component's code raises, SystemExit included
        place = raised_in(error, subject.component.__module__.partition(".")[0])
        raise Violation(f"raised {described(error)}" + (f", in {place}" if place else "")) from error


def _smallest(subject: Subject, check: Check, case: Any, fault: Violation) -> tuple[Any, Violation]:
    """Goes on to simpler texts as long as one fails too."""
    candidates = case.simpler() if isinstance(case, Text) else iter(())
    for _ in range(_SIMPLER):
        if (candidate := next(candidates, None)) is None:
            break
        try:
            with suppress(NotApplicable):
                _try_on(subject, check, candidate)
        except Violation as again:
            case, fault, candidates = candidate, again, candidate.simpler()
    return case, fault


def _as_declared(subject: Subject, ended: Outcome) -> Outcome:
    """Compares an outcome with what the author said to expect.

    What passes although it is declared to fail is a mistake of the declaration, unless options may decide:
    then the same check may fail with others.
    """
    reason = subject.expected_failures.get(ended.check)
    if reason is None or ended.status is Status.SKIPPED:
        return ended
    if ended.status is Status.FAILED and reason.strip():
        return replace(ended, status=Status.EXPECTED_FAILURE, message=f"{reason} ({ended.message})")
    if ended.status is Status.FAILED:
        return replace(ended, message=f"declared to fail without a reason; give one ({ended.message})")
    passes = f"declared to fail ({reason}), but it passes"
    if options_model(subject.component).model_fields:
        return replace(ended, message=f"{passes} with these options")
    return replace(ended, status=Status.FAILED, message=f"{passes}; remove the declaration")
