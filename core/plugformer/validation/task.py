"""Tasks, looked at from all sides before they are trained."""

from plugformer.configuration import ResolvedTask, check_components
from plugformer.runs.initialization import misfits
from plugformer.validation.components import check, data_problems


def validate(resolved: ResolvedTask) -> ResolvedTask:
    """Imports the task's components, checks their options, whether they work together and its data are there.

    Returns:
        The task with the defaults of all options filled in and its paths made absolute.

    Raises:
        ConfigurationError: Something does not fit; all problems together, each with its place.
    """
    checked = check_components(resolved)
    found = check(checked.task, checked.registry)
    found += [] if found else misfits(checked.task, checked.registry)
    known = {path for path, _ in found}
    if ("type",) in known:  # it says which columns the data are to serve
        return checked.raise_for(found)
    more = [each for each in data_problems(checked.task, checked.registry) if each[0] not in known]
    return checked.raise_for([*found, *more])


def validate_model(resolved: ResolvedTask) -> ResolvedTask:
    """Does what `validate` does, wherever the data may be: for looking at a task's model."""
    checked = check_components(resolved)
    return checked.raise_for(check(checked.task, checked.registry))
