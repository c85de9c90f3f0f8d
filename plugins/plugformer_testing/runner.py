"""Runs the checks of a component's kind, also inside pytest with one test for each check."""

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch
from torch import nn

from plugformer.configuration import options_model
from plugformer.errors import ConfigurationError, RegistryError, described, nearest, raised_in
from plugformer.interfaces import ModelContext
from plugformer.registry import Entry, EntryKind, EntryState, Kind, Registry, interface_of
from plugformer.registry.options import checked_options
from plugformer.reproducibility import random_stream
from plugformer_testing.contract import Check, NotApplicable, Violation
from plugformer_testing.report import CheckReport, Outcome, Status
from plugformer_testing.subject import Subject

_SHARED = {
    "tokenwise": (Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL),
    "training": (Kind.INITIALIZATION, Kind.OPTIMIZER, Kind.SCHEDULE),
}


def checks_of(kind: Kind) -> tuple[Check, ...]:
    """Returns the checks of a kind, in the order in which they run."""
    own = next((module for module, kinds in _SHARED.items() if kind in kinds), kind)
    names = ["module", own] if issubclass(interface_of(kind), nn.Module) else [own]
    modules = [import_module(f"plugformer_testing.{name}") for name in names]
    checks = (value for module in modules for value in vars(module).values() if isinstance(value, Check))
    return tuple(check for check in checks if not check.kinds or kind in check.kinds)


def find_checks(kind: Kind, names: Iterable[str]) -> list[Check]:
    """Returns checks of a kind by their names; an unknown one is a RegistryError."""
    checks = {check.name: check for check in checks_of(kind)}
    for name in (names := list(names)):
        if name not in checks:
            known = ", ".join(checks)
            raise RegistryError(f"{kind} has no check {name!r}{nearest(name, checks)}\nknown: {known}")
    return [checks[name] for name in names]


def check(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    only: str | Iterable[str] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
    run: str | Path | None = None,
) -> CheckReport:
    """Runs the contract tests of a component.

    Example:
        ::

            from plugformer_testing import check

            report = check(MyAttention, options={"window": 4})  # a class, also one that a notebook defines
            assert report, report.summary()
            check("attention/gqa", only="shapes")

    Args:
        component: A class that derives from an interface, which tells its kind; or `kind/name` of an
            installed component; or a distribution for all that it offers.
        options: The options of the component. Needed if an option has no default.
        only: The checks to run, by name. All if None.
        model: Sizes of the model, if the component does not work with those that the tests choose.
        expected_failures: Names of checks that fail by design, each with the reason.
        run: A run whose examples and sizes of a model the checks of a hook take, such as that of a teacher.

    Returns:
        A report that is true if no check failed; pytest and Jupyter display it.

    Raises:
        ConfigurationError: An option is unknown, of the wrong type or out of range.
        RegistryError: The component, distribution or check is unknown, or the component cannot be imported.
    """
    if isinstance(component, str) and "/" not in component:
        reports = check_entries(registry := Registry.discover(), offered(registry, component), options)
        return CheckReport.of_components(component, tuple(reports))
    subject = Subject.of(
        component, options=options, model=model, expected_failures=expected_failures, run=run
    )
    return report(subject, [only] if isinstance(only, str) else only)


def offered(registry: Registry, distribution: str) -> list[Entry]:
    """Returns the components, commands and hooks of a distribution; an unknown one is a RegistryError."""
    known = registry.entries()
    entries = [
        entry
        for entry in (registry.offered_by(distribution) if distribution else [])
        if entry.state is EntryState.QUARANTINED or entry.kind not in (EntryKind.PLUGIN, EntryKind.TASK)
    ]
    if entries:
        return entries
    meant = [f"{entry.kind}/{entry.name}" for entry in known if distribution in (entry.name, entry.kind)]
    names = sorted({entry.distribution for entry in known})
    hint = f" (did you mean {meant[0]!r}?)" if meant else nearest(distribution, names)
    advice = f"known: {', '.join(names)}; write a single component as KIND/NAME"
    raise RegistryError(f"no distribution {distribution!r} offers components{hint}\n{advice}")


def check_entries(
    registry: Registry,
    entries: list[Entry],
    options: Mapping[str, Any] | None = None,
    run: str | Path | None = None,
) -> Iterator[CheckReport]:
    """Yields a report for each entry. One that cannot be imported does not stop the others."""
    if (options or run) and len(entries) > 1:
        given = "options are" if options else "a run is"
        raise ConfigurationError(f"{given} for one component: name it as KIND/NAME")
    for entry in entries:
        loads = Outcome(check="loads", status=Status.PASSED)
        try:
            if entry.state is EntryState.QUARANTINED:
                raise RegistryError(f"the plugin cannot be used: {entry.cause}")
            if entry.kind in list(Kind):
                path = f"{entry.kind}/{entry.distribution}:{entry.name}"
                yield report(Subject.of(path, registry, options=options, run=run))
                continue
            try:
                resolve_name(entry.target)  # a command, or a module with hooks
            except (Exception, SystemExit) as error:
                raise RegistryError(f"importing {entry.target} failed: {described(error)}") from error
        except RegistryError as error:
            loads = Outcome(check="loads", status=Status.FAILED, message=str(error))
        yield _report(entry, [loads])


def contract_tests(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
    run: str | Path | None = None,
) -> Callable[[str], None]:
    """Returns a pytest test with one case for each check of a component's kind.

    Example:
        `test_contract = contract_tests("attention/gqa", options={"kv_heads": 2})`

    The arguments are those of `check`, which takes also a distribution.

    Raises:
        RegistryError: The component is unknown or cannot be imported, or an expected failure names no check.
    """
    import pytest  # `plugformer check` does without it

    subject = Subject.of(
        component, options=options, model=model, expected_failures=expected_failures, run=run
    )
    find_checks(subject.kind, subject.expected_failures)

    @pytest.mark.parametrize("check", [check.name for check in checks_of(subject.kind)])
    def test_contract(check: str) -> None:
        ended = run_check(subject, *find_checks(subject.kind, [check]))
        if ended.status in (Status.SKIPPED, Status.EXPECTED_FAILURE):
            (pytest.skip if ended.status is Status.SKIPPED else pytest.xfail)(ended.message)
        if ended.status is Status.FAILED:
            pytest.fail(f"{subject.entry.kind}/{subject.entry.name}: {ended}\n{ended.traceback}".rstrip())

    return test_contract


def report(subject: Subject, only: Iterable[str] | None = None) -> CheckReport:
    """Runs the checks of a subject's kind, or only those with these names."""
    if not subject.missing_options:  # else checks are skipped
        checked_options(subject.component, subject.options, f"{subject.kind}/{subject.entry.name}")
    find_checks(subject.kind, subject.expected_failures)
    checks = checks_of(subject.kind) if only is None else find_checks(subject.kind, only)
    outcomes: list[Outcome] = []
    for each in checks:
        outcomes.append(run_check(subject, each))
        if each.name == "constructs" and outcomes[-1].status is Status.FAILED:  # as all others would
            message = f"not run, since {each.name} failed"
            skipped = [
                Outcome(check=other.name, status=Status.SKIPPED, message=message) for other in checks[1:]
            ]
            return _report(subject.entry, outcomes + skipped, subject.options)
    return _report(subject.entry, outcomes, subject.options)


def _report(entry: Entry, outcomes: list[Outcome], options: Mapping[str, Any] | None = None) -> CheckReport:
    return CheckReport(
        component=f"{entry.kind}/{entry.name}",
        distribution=entry.distribution,
        version=entry.version,
        options=options or {},
        outcomes=tuple(outcomes),
    )


def run_check(subject: Subject, check: Check) -> Outcome:
    """Runs one check. The caller's random numbers and warnings are not affected.

    A check that passes although a failure is declared is a mistake in the declaration, unless the component
    has options: it may fail with others.
    """
    started, threads = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny, and waking threads takes longer than computing
    try:
        with random_stream(0, check.name), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status, message, case, cause = _tried(subject, check)
    finally:
        torch.set_num_threads(threads)
    reason = subject.expected_failures.get(check.name)
    if reason and status is Status.FAILED:
        status, message = Status.EXPECTED_FAILURE, f"{reason} ({message})"
    elif reason and status is Status.PASSED:
        message = f"declared to fail ({reason}), but it passes with these options"
        if not options_model(subject.component).model_fields:
            status, message = Status.FAILED, f"declared to fail ({reason}), but it passes"
    return Outcome(
        check=check.name,
        status=status,
        message=message,
        case=ascii(case)[:80] if isinstance(case, str) else "" if case is None else str(case),
        seconds=round(time.perf_counter() - started, 3),
        traceback="".join(traceback.format_exception(cause)) if cause else "",
    )


def _tried(subject: Subject, check: Check) -> tuple[Status, str, Any, BaseException | None]:
    """Returns how a check ends, whatever is declared: with a message, the failing case and an exception."""
    if missing := subject.missing_options:
        needed = f"needs a value for {', '.join(missing)}, which has no default"
        return Status.SKIPPED, f"{needed}: give it with `--set {missing[0]}=...` or `options=`", None, None
    note, reasons = "", []
    for case in check.cases:
        arguments = (subject,) if case is None else (subject, case)
        try:
            note = check.function(*((check.given(*arguments),) if check.given else arguments)) or note
        except Violation as violation:
            return Status.FAILED, str(violation), case, None
        except NotApplicable as reason:
            reasons.append(str(reason))
        except ConfigurationError as refusal:
            reasons.append(f"the component refuses it: {refusal}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a component may raise anything, also SystemExit
            place = raised_in(error, subject.component.__module__.partition(".")[0])
            tried = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
            message = f"raised{tried} {described(error)}" + (f", in {place}" if place else "")
            return Status.FAILED, message, case, error
    if len(reasons) == len(check.cases):
        return Status.SKIPPED, reasons[0], None, None
    return Status.PASSED, note, None, None
