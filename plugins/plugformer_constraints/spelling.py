"""How the tokens of a vocabulary spell the texts of a pattern, and why they cannot, in words."""

import heapq
import random
from collections.abc import Iterable, Iterator, Sequence, Set

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from plugformer.decoding import TokenAutomaton
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Tokenizer
from plugformer_constraints.pattern import Pattern

_SAMPLES = 100

_READABLE_FIRST = [*range(0x20, 0x7F), *range(0x80, 0x100), *range(0x20), 0x7F]

MAX_STATES = 4096
"""More would take minutes and gigabytes. A class such as `\\w` has hundreds in a byte-level vocabulary, each
time that it is repeated."""


def token_automaton(pattern: Pattern, tokenizer: Tokenizer, longest: int) -> TokenAutomaton:
    """Returns the sequences of tokens whose text matches a pattern.

    Args:
        pattern: What texts must match.
        tokenizer: Of the output.
        longest: Most tokens that an output may have.

    Raises:
        ConfigurationError: No sequence of tokens spells a text of the pattern, or none of at most `longest`
            tokens; the automaton has too many states; or what a token adds to a text depends on its
            neighbors.
    """
    first, later = tokenizer.token_bytes(at_start=True), tokenizer.token_bytes(at_start=False)
    _require_pieces(tokenizer, first, later)
    automaton = _automaton(pattern, _Pieces(first), _Pieces(later), longest)
    if not len(automaton.lengths):
        raise ConfigurationError(_infeasible(pattern, {*first, *later}, automaton, longest))
    return automaton


def _automaton(pattern: Pattern, first: "_Pieces", later: "_Pieces", longest: int) -> TokenAutomaton:
    """Finds the states of the pattern that tokens can reach, and the classes of tokens.

    The beginning of a text is a state of its own: a token may add something else there than behind others.
    The table of states and tokens, which can be large, is never there as a whole: tokens are sorted into
    classes one state after the other, then a token of each class is followed again.
    """
    dead = len(pattern.moves) - 1
    states, numbers = [0], {dead: -1}
    classes, examples = np.zeros(first.count, dtype=np.int64), np.array([0])
    for position, state in enumerate(states):  # grows
        row = (later if position else first).walk(pattern.moves, state)
        if not np.array_equal(row[examples][classes], row):
            _, examples, classes = np.unique(
                classes * len(pattern.moves) + row, return_index=True, return_inverse=True
            )
        for reached in np.unique(row[examples]).tolist():
            if reached not in numbers:
                numbers[reached] = len(states)
                states.append(reached)
        if len(states) > MAX_STATES:
            raise ConfigurationError(
                f"the pattern {pattern.expression!r} has more than {MAX_STATES:,} states with this "
                "vocabulary; repeat less, or narrower classes: [a-z] instead of \\w"
            )
    numbers[dead] = len(states)
    beginnings, others = first.only(examples), later.only(examples)
    reached = [(others if n else beginnings).walk(pattern.moves, state) for n, state in enumerate(states)]
    reached.append(np.full(len(examples), dead, dtype=np.int32))
    renumbered = np.vectorize(numbers.__getitem__, otypes=[np.int64])(np.stack(reached))
    return TokenAutomaton.of(renumbered, classes, pattern.accepting[[*states, dead]], longest)


class _Pieces:
    """The bytes of all tokens as a matrix, the longest first, to be walked through together."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        lengths = np.array([len(piece) for piece in pieces])
        longest = int(lengths.max())
        self._order = np.argsort(-lengths, kind="stable")
        self._longer = [int((lengths > length).sum()) for length in range(longest + 1)]
        self._bytes = np.zeros((longest, len(pieces)), dtype=np.int32)
        for row, token in enumerate(self._order.tolist()):
            self._bytes[: lengths[token], row] = list(pieces[token])

    @property
    def count(self) -> int:
        """Number of tokens."""
        return len(self._pieces)

    def only(self, tokens: Int[ndarray, " some"]) -> "_Pieces":
        """Returns the pieces of some tokens."""
        return _Pieces([self._pieces[token] for token in tokens.tolist()])

    def walk(self, moves: Int[ndarray, "states 256"], state: int) -> Int[ndarray, " vocabulary"]:
        """Returns the state that each token leads to; one without bytes leads to the last, the dead one."""
        reached = np.full(self.count, state, dtype=np.int32)
        for values, count in zip(self._bytes, self._longer, strict=False):
            reached[:count] = moves[reached[:count], values[:count]]
        reached[self._longer[0] :] = len(moves) - 1
        row = np.empty_like(reached)
        row[self._order] = reached
        return row


def _require_pieces(tokenizer: Tokenizer, first: list[bytes], later: list[bytes]) -> None:
    """Refuses a tokenizer whose text is not that of its pieces one after the other, seen on random rows."""
    usable = [token for token, piece in enumerate(first) if piece and later[token]]
    if not usable:
        return
    draw = random.Random(1)  # noqa: S311 (a sample, not a secret)
    rows = [draw.choices(usable, k=1 + number % 8) for number in range(_SAMPLES)]
    for row, text in zip(rows, tokenizer.decode(rows), strict=True):
        spelled = first[row[0]] + b"".join(later[token] for token in row[1:])
        # Bytes that are no UTF-8 are shown in other ways by other decoders; no pattern lets them through.
        if "\ufffd" not in text and text.encode() != spelled:
            raise ConfigurationError(
                f"the tokens {tokenizer.tokens(row)} read {text!r} together, but {spelled.decode()!r} one by "
                f"one: no pattern can be kept with such a tokenizer; choose another one"
            )


def _infeasible(pattern: Pattern, pieces: Set[bytes], automaton: TokenAutomaton, longest: int) -> str:
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
