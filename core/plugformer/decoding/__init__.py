"""How outputs are generated: decoding sessions and constraints; the searches themselves are components."""

from plugformer.decoding.constraint import Constraint, Progress
from plugformer.decoding.limit import LengthRange
from plugformer.decoding.session import CachedSession, ModelSession, RecomputingSession, not_finite

__all__ = [
    "CachedSession",
    "Constraint",
    "LengthRange",
    "ModelSession",
    "Progress",
    "RecomputingSession",
    "not_finite",
]
