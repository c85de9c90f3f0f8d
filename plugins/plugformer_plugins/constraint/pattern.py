"""Regular expressions as constraints: how the tokens of a vocabulary spell the texts that match."""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError, needing
from plugformer.interfaces import Constraint, Tokenizer
from plugformer_plugins.constraint.automaton import AutomatonTokens, TokenAutomaton

if TYPE_CHECKING:
    from plugformer_plugins.constraint.expressions import ByteAutomaton

_SAMPLES = 100
MAX_STATES = 4096  # more would take minutes and gigabytes; each `\\w` has hundreds in a byte-level vocabulary


class Pattern(Constraint):
    """Texts that match a regular expression as a whole.

    The syntax is that of Rust's `regex`, https://docs.rs/regex/latest/regex/#syntax, without look-around and
    references to groups. `decoding.pattern: EXPRESSION` is short for this constraint.

    Args:
        expression: The regular expression; `^` and `$` are left out.

    Raises:
        ConfigurationError: It is not a usable regular expression, or outlines-core is not installed.
    """

    def __init__(self, *, expression: Annotated[str, Field(min_length=1)]) -> None:
        with needing("patterns", "decoding.pattern"):
            from plugformer_plugins.constraint.expressions import compile_expression
        self._pattern = compile_expression(expression)

    def compile(
        self, tokenizer: Tokenizer, shortest: int, longest: int
    ) -> Callable[[Int[Tensor, " rows"], Int[Tensor, " rows"]], AutomatonTokens]:
        """Returns what begins outputs that match."""
        automaton = token_automaton(self._pattern, tokenizer, longest)
        known = automaton.lengths.tolist()
        if known[-1] < shortest:
            raise ConfigurationError(
                f"texts of the pattern {self._pattern.expression!r} have {known[0]} to {known[-1]} tokens, "
                f"none of them {shortest}; change decoding.length"
            )

        def begin(least: Int[Tensor, " rows"], most: Int[Tensor, " rows"]) -> AutomatonTokens:
            return AutomatonTokens(automaton.to(least.device), least, most)

        return begin


def token_automaton(pattern: "ByteAutomaton", tokenizer: Tokenizer, longest: int) -> TokenAutomaton:
    """Returns the sequences of at most `longest` tokens whose text matches a pattern.

    The beginning of a text is a separate state: there a token may add another text than after other tokens.
    The table of all states and tokens can be large, so it is never built: tokens are sorted into classes one
    state after the other, then one token of each class is followed again.

    Raises:
        ConfigurationError: No such sequence spells a text of the pattern; the automaton has too many states;
            or what a token adds to a text depends on its neighbors.
    """
    pieces = tokenizer.token_bytes(at_start=True), tokenizer.token_bytes(at_start=False)
    _require_pieces(tokenizer, *pieces)
    first, later = map(_Pieces, pieces)
    dead = len(pattern.moves) - 1
    states, numbers = [0], {dead: -1}
    classes, examples = np.zeros(len(pieces[0]), dtype=np.int64), np.array([0])
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
    at_start, inside = first.only(examples), later.only(examples)
    reached = [(inside if n else at_start).walk(pattern.moves, state) for n, state in enumerate(states)]
    reached.append(np.full(len(examples), dead, dtype=np.int32))
    renumbered = np.vectorize(numbers.__getitem__, otypes=[np.int64])(np.stack(reached))
    automaton = TokenAutomaton.of(renumbered, classes, pattern.accepting[[*states, dead]], longest)
    if not len(automaton.lengths):
        raise ConfigurationError(
            f"the vocabulary cannot spell a text of the pattern {pattern.expression!r} with at most {longest}"
            " tokens; change the pattern or the tokenizer, or raise max_length of decoding or of the model"
        )
    return automaton


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

    def only(self, tokens: Int[ndarray, " some"]) -> "_Pieces":
        """Returns the pieces of some tokens."""
        return _Pieces([self._pieces[token] for token in tokens.tolist()])

    def walk(self, moves: Int[ndarray, "states 256"], state: int) -> Int[ndarray, " vocabulary"]:
        """Returns the state that each token leads to; one without bytes leads to the last, the dead one."""
        reached = np.full(len(self._pieces), state, dtype=np.int32)
        for values, count in zip(self._bytes, self._longer, strict=False):
            reached[:count] = moves[reached[:count], values[:count]]
        reached[self._longer[0] :] = len(moves) - 1
        row = np.empty_like(reached)
        row[self._order] = reached
        return row


def _require_pieces(tokenizer: Tokenizer, first: list[bytes], later: list[bytes]) -> None:
    """Refuses a tokenizer whose text is not that of its pieces one after the other, seen on random rows."""
    usable = [token for token, piece in enumerate(first) if piece and later[token]]
    draw = random.Random(1)  # noqa: S311 (a sample, not a secret)
    rows = [draw.choices(usable, k=1 + number % 8) for number in range(_SAMPLES)] if usable else []
    for row, text in zip(rows, tokenizer.decode(rows), strict=True):
        spelled = first[row[0]] + b"".join(later[token] for token in row[1:])
        # Bytes that are no UTF-8 are shown in other ways by other decoders; no pattern lets them through.
        if "\ufffd" not in text and text.encode() != spelled:
            raise ConfigurationError(
                f"the tokens {tokenizer.tokens(row)} read {text!r} together, but {spelled.decode()!r} one by "
                f"one: no pattern can be kept with such a tokenizer; choose another one"
            )
