"""How outputs are generated: decoding sessions and constraints; the searches themselves are components."""

from plugformer.decoding.constraint import AllowedTokens, Constraint
from plugformer.decoding.session import CachedSession, not_finite

__all__ = ["AllowedTokens", "CachedSession", "Constraint", "not_finite"]
