"""Why `torch.export` cannot trace a program: the lines that decide by a size or by a value."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import FrameSummary, walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_FOLDERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<")
_AXIS = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")
_REST = re.compile(r"! For more information.*| \(unhinted: .*")

Line = tuple[str, int]
"""A file and the number of a line in it."""


def frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yields frames and lines of an error and of its causes, since what is raised again loses them."""
    cause: BaseException | None = error
    while cause is not None:
        yield from walk_tb(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def untraceable(
    error: BaseException, traced: "ExportedProgram | None" = None, names: Sequence[str] = ()
) -> str:
    """Returns why a program cannot be traced for any batch and length, with the lines that decide it.

    Args:
        error: What tracing has raised, or the call of a program that was traced.
        traced: That program.
        names: Names of the program's tensors.
    """
    lines = _deciding_lines(traced or error)

    def axis(match: "re.Match[str]") -> str:
        return f"axis {match[2]} of {names[int(match[1])]}"

    first = _REST.sub("", str(error).partition("\n")[0])
    reason = f"{type(error).__name__}: {_AXIS.sub(axis, first) if names else first}"
    if not lines:
        return reason
    shown = ", ".join(f"{file}:{line}" for file, line in lines[:3])
    return f"{reason}; in {shown} Python decides by a size or a value, as `if`, `int` and `len` do"


def _deciding_lines(found: "BaseException | ExportedProgram") -> list[Line]:
    """Returns the lines outside of torch at which tracing compared sizes, or else the one that raised."""
    values: list[Any] = []
    raised: list[Line] = []
    if isinstance(found, BaseException):
        for frame, line in frames_of(found):
            values += frame.f_locals.values()
            raised.append((frame.f_code.co_filename, line))
    else:
        values += (node.meta.get("val") for node in found.graph.nodes)
    modes = [getattr(value, "fake_mode", value) for value in values]
    known = {id(env): env for mode in modes if (env := getattr(mode, "shape_env", None)) is not None}
    places = [guard.sloc.framework_loc for env in known.values() for guard in env.guards]
    compared = [(place.filename, place.lineno or 0) for place in places if isinstance(place, FrameSummary)]
    lines = _outside(compared) or _outside(raised)[-1:]
    return list(dict.fromkeys(lines))


def _outside(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not line[0].startswith(_FOLDERS)]
