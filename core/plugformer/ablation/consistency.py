"""What in a study contradicts itself, before any task is read."""

from collections.abc import Iterator

from plugformer.ablation.study import Study
from plugformer.problems import Key

Finding = tuple[tuple[Key, ...], str]
"""Where, and what is wrong."""

_SOLVED = {
    "parameters": ("model.hidden_width",),
    "flops": ("model.hidden_width",),
    "time": ("training.steps", "training.epochs"),
}
"""What each way of matching sets."""


def contradictions(study: Study) -> Iterator[Finding]:
    """Yields what cannot be meant: settings given twice, or set by the study itself."""
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
