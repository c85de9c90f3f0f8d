"""Why a vocabulary cannot spell a pattern, in words."""

import heapq
from collections.abc import Iterable, Iterator, Set

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from plugformer.decoding import TokenAutomaton
from plugformer_constraints.pattern import Pattern

_READABLE_FIRST = [*range(0x20, 0x7F), *range(0x80, 0x100), *range(0x20), 0x7F]


def infeasible(
    pattern: Pattern,
    pieces: Set[bytes],
    automaton: TokenAutomaton,
    longest: int,
) -> str:
    """Returns the message about a pattern of which no output is possible.

    Args:
        pattern: The pattern.
        pieces: What tokens add to a text.
        automaton: The sequences of tokens, none of which is short enough.
        longest: Most tokens that an output may have.
    """
    shortest = _shortest(automaton.moves.numpy(), automaton.accepting.numpy())
    if shortest is not None:
        return (
            f"the shortest text of the pattern {pattern.expression!r} has {shortest} tokens, but an output "
            f"may have {longest} at most; raise max_length of decoding, or of the model"
        )
    example = _easiest(pattern, set(b"".join(pieces)))
    missing = sorted({mark for mark in example if not any(mark.encode() in piece for piece in pieces)})
    reason = (
        f"no token has {', '.join(map(repr, missing))}"
        if missing
        else f"no tokens make {example!r}, for example"
    )
    return (
        f"the vocabulary cannot spell the pattern {pattern.expression!r}: {reason}; "
        "change the pattern, the tokenizer, or the texts that it learns from"
    )


def _shortest(moves: Int[ndarray, "states classes"], accepting: Bool[ndarray, " states"]) -> int | None:
    """Returns the least number of tokens that lead from the first state to an end; None if none do."""
    seen = frontier = np.array([0])
    for length in range(len(moves)):
        if accepting[frontier].any():
            return length
        frontier = np.setdiff1d(np.unique(moves[frontier]), seen)
        seen = np.union1d(seen, frontier)
    return None


def _easiest(pattern: Pattern, known: set[int]) -> str:
    """Returns a text of the pattern with the fewest bytes outside `known`, and a short one of these."""
    reached = {0: (0, b"")}
    queue = [(0, 0, 0)]
    while queue:
        unknown, length, state = heapq.heappop(queue)
        text = reached[state][1]
        if pattern.accepting[state]:
            return text.decode()
        for byte, following in _steps(pattern.moves[state], known):
            cost = unknown + (byte not in known)
            if following not in reached or cost < reached[following][0]:
                reached[following] = (cost, text + bytes([byte]))
                heapq.heappush(queue, (cost, length + 1, following))
    return ""


def _steps(row: Int[ndarray, " 256"], known: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields a byte for each state that follows, a known and readable one if there is one."""
    best = dict.fromkeys(known)
    order = sorted(_READABLE_FIRST, key=lambda byte: byte not in best)
    chosen: dict[int, int] = {}
    for byte in order:
        chosen.setdefault(int(row[byte]), byte)
    yield from ((byte, state) for state, byte in chosen.items())
