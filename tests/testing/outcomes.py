"""How the checks of a component end, without a test for each."""

import pytest

from plugformer_testing.checks import checks_of, component_checks
from plugformer_testing.subject import Subject


def outcomes(component, **given):
    """Returns for each check `passed`, `skipped`, `xfailed` or `failed`, the last three with a message."""
    subject = Subject.of(component, **given)
    return {each.name: _outcome(each, subject.expected_failures) for each in component_checks(subject)}


def _outcome(check, expected_failures):
    try:
        check()
    except pytest.skip.Exception as skip:
        return f"skipped: {skip}"
    except (pytest.fail.Exception, Exception) as error:
        return f"{'xfailed' if check.name in expected_failures else 'failed'}: {error}"
    return "passed"


def unsound(component, **given):
    """Returns the outcomes other than `passed`."""
    return {name: outcome for name, outcome in outcomes(component, **given).items() if outcome != "passed"}


def failure(component, name, *, raises=False, **given):
    """Returns the message with which a check must fail, with an exception only where one may be raised."""
    subject = Subject.of(component, **given)
    (check,) = (each for each in checks_of(subject.kind) if each.name == name)
    with pytest.raises((pytest.fail.Exception, Exception) if raises else pytest.fail.Exception) as caught:
        check(subject)
    return "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
