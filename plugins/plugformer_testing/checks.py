"""The checks of a component, as tests of pytest and as a function for notebooks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from torch import nn

from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.interfaces import ModelContext
from plugformer.registry import Entry, EntryKind, EntryState, Kind, Registry, interface_of
from plugformer.registry.options import checked_options, options_model
from plugformer_testing.contract import Check
from plugformer_testing.subject import Subject

_SHARED = {
    "tokenwise": (Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL),
    "training": (Kind.INITIALIZATION, Kind.OPTIMIZER, Kind.SCHEDULE),
}


def checks_of(kind: Kind) -> tuple[Check, ...]:
    """Returns the checks of a kind. If the first fails, the component cannot be used for the others."""
    own = next((module for module, kinds in _SHARED.items() if kind in kinds), kind)
    names = ["module", "widths", own] if issubclass(interface_of(kind), nn.Module) else [own]
    modules = [import_module(f"plugformer_testing.{name}") for name in names]
    checks = (value for module in modules for value in vars(module).values() if isinstance(value, Check))
    return tuple(check for check in checks if not check.kinds or kind in check.kinds)


@dataclass(frozen=True)
class ComponentCheck:
    """A check of one component. Called, it passes, fails or is skipped, as a test of pytest."""

    subject: Subject
    check: Check
    first: Check

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.name

    def __call__(self) -> None:
        """Runs the check, unless the first one has failed."""
        __tracebackhide__ = True
        if missing := self.subject.missing_options:
            needed = f"needs a value for {', '.join(missing)}, which has no default"
            pytest.skip(f"{needed}: give it with `--set {missing[0]}=...` or `options=`")
        first = self.subject.once("first check", lambda: _ended(self.first, self.subject))
        if self.check is not self.first:
            failed = first is not None and not isinstance(first, pytest.skip.Exception)
            if failed and self.first.name not in self.subject.expected_failures:
                pytest.skip(f"not run, since {self.first.name} failed")
            self.check(self.subject)
        elif first is not None:
            raise first


def _ended(check: Check, subject: Subject) -> BaseException | None:
    """Returns the exception with which a check ends, if any."""
    __tracebackhide__ = True
    try:
        check(subject)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a component may raise anything, also SystemExit
        return error
    return None


def component_checks(subject: Subject) -> list[ComponentCheck]:
    """Returns the checks of a component in the order in which they run.

    Raises:
        ConfigurationError: An option is unknown, of the wrong type or out of range.
        RegistryError: An expected failure names no check.
    """
    path = f"{subject.kind}/{subject.entry.name}"
    if not subject.missing_options:  # else checks are skipped
        checked_options(subject.component, subject.options, path)
    first, *others = checks_of(subject.kind)
    names = [first.name, *(other.name for other in others)]
    for name in subject.expected_failures:
        if name not in names:
            raise RegistryError(
                f"{path} has no check {name!r}{nearest(name, names)}\nknown: {', '.join(names)}"
            )
    return [ComponentCheck(subject, check, first) for check in (first, *others)]


def parametrize_with_checks(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
    run: str | Path | None = None,
) -> pytest.MarkDecorator:
    """Runs a test once for each check of a component's kind.

    Example:
        ::

            from plugformer_testing import parametrize_with_checks

            @parametrize_with_checks("attention/gqa", options={"kv_heads": 2})
            def test_contract(check):
                check()

    Args:
        component: A class that derives from an interface, which tells its kind; or `kind/name` of an
            installed component.
        options: The options of the component. Needed if an option has no default.
        model: Sizes of the model, if the component does not work with those that the tests choose.
        expected_failures: Names of checks that fail by design, each with the reason.
        run: A run whose examples and sizes of a model the checks of a hook take, such as that of a teacher.

    Raises:
        ConfigurationError: An option is unknown, of the wrong type or out of range.
        RegistryError: The component is unknown or cannot be imported, or an expected failure names no check.
    """
    given: dict[str, Any] = {"options": options, "model": model, "run": run}
    subject = Subject.of(component, expected_failures=expected_failures, **given)
    return pytest.mark.parametrize("check", [_parameter(check) for check in component_checks(subject)])


def _parameter(check: ComponentCheck, path: str = "") -> Any:
    """Returns a check for `pytest.mark.parametrize`.

    A check that passes although a failure is declared is a mistake in the declaration, unless the component
    has options: it may fail with others.
    """
    reason = check.subject.expected_failures.get(check.name)
    strict = not options_model(check.subject.component).model_fields
    marks = [pytest.mark.xfail(reason=reason, strict=strict)] if reason else []
    return pytest.param(check, id=f"{path}{check.name}", marks=marks)


def check(component: str | type, **given: Any) -> bool:
    """Has pytest run and report the checks of a component, as in a notebook.

    Example:
        ::

            from plugformer_testing import check

            assert check(MyAttention, options={"window": 4})  # also of a class that a notebook defines

    Args:
        component: As of `parametrize_with_checks`.
        given: The other arguments of `parametrize_with_checks`.

    Returns:
        Whether no check failed.
    """
    subject = Subject.of(component, **given)
    path = f"{subject.kind}/{subject.entry.name}::"
    return run_pytest([_parameter(check, path) for check in component_checks(subject)]) == 0


class CheckItem(pytest.Item):
    """A check as a test, called `kind/name::check`."""

    def __init__(self, *, check: Any, name: str, **given: Any) -> None:
        super().__init__(name, nodeid=name, **given)
        self.check = check

    def runtest(self) -> None:
        """Runs the check."""
        self.check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Shows an exception from the check on, without how it was called."""
        if not isinstance(excinfo.value, pytest.fail.Exception):  # its message says all
            excinfo.traceback = excinfo.traceback.cut(path=__file__)[1:].filter(excinfo)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Returns the component in place of a file."""
        return self.config.rootpath / self.name.partition("::")[0], None, self.name


class _File(pytest.File):
    def __init__(self, *, parameters: list[Any], **given: Any) -> None:
        super().__init__(**given)
        self.parameters = parameters

    def collect(self) -> Iterator[CheckItem]:
        for parameter in self.parameters:
            item = CheckItem.from_parent(self, name=parameter.id, check=parameter.values[0])
            for mark in parameter.marks:
                item.add_marker(mark)
            yield item


class Collecting:
    """A plugin of pytest that collects parameters of `pytest.mark.parametrize`, whichever file is named."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters

    def pytest_collect_file(self, parent: pytest.Collector, file_path: Path) -> pytest.File:
        """Returns what takes the place of the file."""
        return _File.from_parent(parent, path=file_path, parameters=self.parameters)


def run_pytest(parameters: list[Any], arguments: Iterable[str] = ()) -> int:
    """Has pytest run tests with these parameters, and returns its exit status."""
    settings = str(Path(__file__).with_name("pytest.ini"))  # also the file that pytest is to collect
    return int(pytest.main([settings, "--rootdir=.", *arguments], plugins=[Collecting(parameters)]))


def parameters(
    registry: Registry,
    entries: list[Entry],
    options: Mapping[str, Any] | None = None,
    run: str | Path | None = None,
) -> list[Any]:
    """Returns the checks of entries for `pytest.mark.parametrize`: of commands and hooks, that they load.

    Raises:
        ConfigurationError: Options or a run are given for several, or the options are wrong.
    """
    if (options or run) and len(entries) > 1:
        given = "options are" if options else "a run is"
        raise ConfigurationError(f"{given} for one component: name it as KIND/NAME")
    return [each for entry in entries for each in _of_entry(registry, entry, options, run)]


def _of_entry(
    registry: Registry, entry: Entry, options: Mapping[str, Any] | None, run: str | Path | None
) -> Iterator[Any]:
    path, cause = f"{entry.kind}/{entry.name}::", ""
    if entry.state is EntryState.QUARANTINED:
        cause = f"the plugin cannot be used: {entry.cause}"
    elif entry.kind in list(Kind):
        try:
            component = f"{entry.kind}/{entry.distribution}:{entry.name}"
            subject = Subject.of(component, registry, options=options, run=run)
            yield from (_parameter(check, path) for check in component_checks(subject))
            return
        except RegistryError as error:
            cause = str(error)
    loads = partial(pytest.fail, cause, pytrace=False) if cause else partial(resolve_name, entry.target)
    yield pytest.param(loads, id=f"{path}loads")


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
