"""What in a study contradicts itself, before any task is read."""

from collections.abc import Iterator
from math import prod

from plugformer.configuration import Key
from plugformer_ablation.study import Study

Finding = tuple[tuple[Key, ...], str]
"""Where, and what is wrong."""

_SOLVED = {
    "parameters": ("model.hidden_width",),
    "flops": ("model.hidden_width",),
    "time": ("training.steps", "training.epochs"),
}
"""What each way of matching sets."""

MOST = 10_000
"""Trainings of a study: more are a mistake, and would fill the memory before they are trained."""


def contradictions(study: Study) -> Iterator[Finding]:
    """Yields what cannot be meant: too many trainings, settings given twice, or set by the study itself."""
    if too_many := list(_too_many(study)):
        yield from too_many  # looking further would take long
        return
    yield from _malformed(study)
    varied: dict[str, tuple[Key, ...]] = {}
    for name, factor in study.factors.items():
        yield from _overlaps(("factors", name, "path"), factor.path, varied)
        varied[factor.path] = ("factors", name)
    for path in study.tune:
        yield from _overlaps(("tune", path), path, varied)
        varied[path] = ("tune", path)
    for path, place in varied.items():
        yield from _reserved(place, path, study)
    for path in study.changes:
        for other, place in varied.items():
            if _within(path, other):
                yield ("set", path), f"has no effect: {_named(place)} puts another value there"
        if path == "training.seed":
            yield ("set", path), "is given by the study: write the seeds under `seeds`"


def _malformed(study: Study) -> Iterator[Finding]:
    written: list[tuple[tuple[Key, ...], str]] = [
        (("factors", name, "path"), factor.path) for name, factor in study.factors.items()
    ]
    written += [(("tune", path), path) for path in study.tune]
    written += [(("set", path), path) for path in study.changes]
    for place, path in written:
        if not all(path.split(".")):
            yield place, f"expected keys with dots between them, such as model.attention, found {path!r}"


def _too_many(study: Study) -> Iterator[Finding]:
    """Counts trainings without making a list of them."""
    values = [len(factor.values) for factor in study.factors.values()]
    arms = prod(values) if study.design == "grid" else 1 + sum(number - 1 for number in values)
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    tried = prod(map(len, study.tune.values())) if study.tune else 0
    if (trainings := arms * (seeds + tried)) > MOST:
        yield (
            ("factors",),
            f"{_short(arms)} arms with {seeds:,} seeds and {_short(tried)} settings to try are "
            f"{_short(trainings)} trainings, expected at most {MOST:,}: leave values, seeds or settings out"
            f"{', or write `design: one-factor`' if study.design == 'grid' else ''}",
        )


def _short(number: int) -> str:
    return f"{number:,}" if number < 10**12 else "more than 10^12"


def _overlaps(place: tuple[Key, ...], path: str, varied: dict[str, tuple[Key, ...]]) -> Iterator[Finding]:
    for other, there in varied.items():
        if _within(path, other) or _within(other, path):
            yield place, f"{path!r} is changed by {_named(there)}, too: let one of them have whole blocks"


def _reserved(place: tuple[Key, ...], path: str, study: Study) -> Iterator[Finding]:
    if _within(path, "evaluation") or _within(path, "training.monitor"):
        yield place, f"{path!r} says how arms are measured, which must be the same for all: use `set`"
    if _within("training.seed", path):
        yield place, f"{path!r} is given by the study: write the seeds under `seeds`"
    for solved in _SOLVED.get(study.match, ()):
        if _within(solved, path) or _within(path, solved):
            yield place, f"{path!r} is what `match: {study.match}` sets: write `match: none`"


def _within(path: str, outer: str) -> bool:
    return f"{path}.".startswith(f"{outer}.")


def _named(place: tuple[Key, ...]) -> str:
    return f"the factor {place[1]!r}" if place[0] == "factors" else f"tune {place[1]!r}"
