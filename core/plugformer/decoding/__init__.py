"""How outputs are generated: decoding sessions and constraints; the searches themselves are components."""

from plugformer.decoding.constraint import Constraint, LengthRange, OutputPattern, Progress, TokenAutomaton
from plugformer.decoding.session import CachedSession, not_finite

__all__ = [
    "CachedSession",
    "Constraint",
    "LengthRange",
    "OutputPattern",
    "Progress",
    "TokenAutomaton",
    "not_finite",
]
