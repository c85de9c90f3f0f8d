"""Implements the key `decoding.pattern` of a task."""

from collections.abc import Callable
from functools import partial

from plugformer.errors import needing
from plugformer.hooks import hookimpl, must_not_fail
from plugformer.interfaces import Constraint


@hookimpl
@must_not_fail
def output_pattern(expression: str) -> Callable[..., Constraint]:
    """Reads any pattern as a regular expression in the syntax of Rust's `regex`.

    Raises:
        ConfigurationError: It is not a usable regular expression, or outlines-core is not installed.
    """
    with needing("patterns", "decoding.pattern"):
        from plugformer_constraints.pattern import compile_pattern
        from plugformer_constraints.spelling import RegularExpression
    return partial(RegularExpression, compile_pattern(expression))
