"""What contradicts itself in a study: settings given twice, set by the study itself, or too many."""

from collections.abc import Iterable, Iterator
from math import prod

from plugformer.configuration import merge_layers
from plugformer_ablation.design.blocks import BUDGETS
from plugformer_ablation.design.study import Place, Study, flat

MOST = 10_000
"""Largest number of trainings of a study; a grid with more is a mistake."""

_SOLVED = {
    **dict.fromkeys(("parameters", "flops"), ("model.ffn_width",)),
    **dict.fromkeys(("time", *BUDGETS), ("training.steps", "training.epochs")),
}
"""The settings that each way of matching changes."""


def replacements(
    study: Study, changes: Iterable[tuple[str, Place]], places: Iterable[tuple[str, Place]]
) -> Iterator[tuple[Place, str]]:
    """Yields which keys of `set`, or of values before it, a factor's value or a tuned setting replaces.

    `changes` are those of `set`; `places` are the places of these values in the study, with their paths.
    """
    before = [*changes]
    for path, place in places:
        for other, earlier in before:
            layers = [study.layer(other, earlier), study.layer(path, place)]
            kept = list(flat(merge_layers(layers).value))
            for leaf in flat(layers[0].value):
                if not any(_overlap(leaf, key) for key in kept):
                    where = f"{'.'.join(map(str, earlier[:2]))}, {study.origin(earlier[:2])}"
                    yield place[:2], f"{path!r} replaces {leaf!r} of {where}: keep one of them"
        before.append((path, place))


def contradictions(study: Study) -> Iterator[tuple[Place, str]]:
    """Yields contradictions: too many trainings, settings given twice, or set by the study itself."""
    for name in ("scale", "task"):
        if name in study.factors:
            yield ("factors", name), f"`{name}s` names these: give the factor another name"
    if bool(study.task) == bool(study.tasks):
        yield ("task",), "expected either `task` or `tasks`" if study.task else "is missing"
        return
    if study.ladder and study.scales != study.ladder.scales:
        yield ("ladder",), "expected either `scales` or `ladder`"
    yield from _stages(study)
    if bool(study.factors) == bool(study.arms):
        yield (("factors",) if study.factors else ()), "expected either `factors` or `arms`"
        return
    values = [len(factor.values) for factor in study.factors.values()] or [len(study.arms)]
    if values == [1]:
        yield ("arms",), "expected at least two arms"
    arms = prod(values) if study.design == "grid" else 1 + sum(number - 1 for number in values)
    arms *= (len(study.scales) or 1) * (len(study.tasks) or 1)
    numbers = [len(values) for values in study.tune.values()]
    tried = prod(numbers) if numbers else 0
    if study.tuning.strategy == "coordinate" and numbers:
        tried = 1 + sum(number - 1 for number in numbers)  # to begin with
    tried = min(tried, study.tuning.trials or tried)
    seeds = study.looks[-1] + (study.screen.seeds if study.screen else 0)
    each = study.tuning.seeds
    if (trainings := arms * (seeds * max(tried, 1) if each == "each" else seeds + tried * each)) > MOST:
        advice = "use fewer values, seeds or settings to try, or write `design: one-factor`"
        yield ("factors",), f"{trainings:,} trainings, expected at most {MOST:,}: {advice}"
        return  # looking further would take long
    for name, settings in study.arms.items():
        tries = settings.get("tune", {})
        if not isinstance(tries, dict) or not all(isinstance(each, list) and each for each in tries.values()):
            message = "expected settings by dotted keys, each with a list of values to try"
            yield ("arms", name, "tune"), message
            return
    if study.screen and study.tunes_by_seed:
        message = "with `screen`, settings are chosen once, before it: write `tuning: {seeds: 1}` or more"
        yield ("tuning", "seeds"), message
    tuned: list[tuple[Place, str, str]] = [(("tune", path), path, f"tune {path!r}") for path in study.tune]
    factors = [
        (("factors", name, "path"), factor.path, f"the factor {name!r}")
        for name, factor in study.factors.items()
    ]
    written = [
        ((key, name), path, "")
        for key, blocks in (("arms", study.arms), ("scales", study.scales))
        for name, settings in blocks.items()
        for path in flat({key: value for key, value in settings.items() if key != "tune"})
    ]
    own = [
        (("arms", name, "tune", path), path, "")
        for name, settings in study.arms.items()
        for path in settings.get("tune", {})
    ]
    known: dict[str, str] = {}
    for place, path, owner in (*tuned, *factors, *written, *own):
        for other, by in known.items():
            own_values = place[2:3] == ("tune",) and path == other
            if _overlap(path, other) and not own_values:
                yield place, f"{path!r} is also changed by {by}: let one of them have whole blocks"
        if owner:
            known[path] = owner
        if _within(path, "evaluation") or _within(path, "training.monitor"):
            yield place, f"{path!r} decides how arms are measured, which must be the same for all: use `set`"
        if _within("training.seed", path):
            yield place, f"{path!r} is given by the study: write the seeds under `seeds`"
        solved = _SOLVED.get(study.match, ()) if place[0] != "scales" else ()  # of the baseline at a scale
        if any(_overlap(path, each) for each in solved):
            yield place, f"{path!r} is changed by `match: {study.match}`: write `match: none`"
    sets = {change for task in study.tasks or ("",) for change in study.settings(task)}
    for path, place in sorted(sets, key=str):
        for other, by in known.items():
            if _within(path, other):
                yield place, f"has no effect: {by} gives another value"
        if path == "training.seed":
            yield place, "is given by the study: write the seeds under `seeds`"


def _stages(study: Study) -> Iterator[tuple[Place, str]]:
    """Yields tasks that start from one that does not come before them."""
    names = list(study.tasks)
    for number, (name, task) in enumerate(study.tasks.items()):
        if task.start and task.start.task not in names[:number]:
            known = f"known: {', '.join(names[:number])}" if number else "this is the first one"
            yield ("tasks", name, "from", "task"), f"{task.start.task!r} is no task before it; {known}"


def _within(path: str, outer: str) -> bool:
    return f"{path}.".startswith(f"{outer}.")


def _overlap(path: str, other: str) -> bool:
    return _within(path, other) or _within(other, path)
