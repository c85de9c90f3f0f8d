"""Regular expressions as automata over bytes; the syntax is that of Rust's `regex`, by outlines-core."""

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray
from outlines_core import Index, Vocabulary

from plugformer.configuration import shown
from plugformer.errors import ConfigurationError

_END_OF_TEXT = 256
_BYTES = Vocabulary(_END_OF_TEXT, {bytes([byte]): [byte] for byte in range(256)})
_OPENING = "\x02\x03\x04"
_WRAPPED = r"{}(?:{}(?:{}(?:%s))?\z|)".format(*_OPENING)
r"""What is compiled instead of an expression.

outlines-core prefers the first match to the longest, so that `a|ab` would never be "ab": `\z` makes only
whole texts match. It also compiles a search from every position, whose automaton grows exponentially for such
as `a.{30}`: the empty match behind the first character of the opening ends that search. The other two
characters keep the first state of the expression clear of that match.
"""


@dataclass(frozen=True)
class ByteAutomaton:
    """The texts that match a regular expression as a whole: a deterministic automaton that reads UTF-8.

    Attributes:
        expression: The regular expression.
        moves: The next state, by state and byte. State 0 is the first; the last is dead: nothing leads out.
        accepting: Whether what has been read up to a state matches.
    """

    expression: str
    moves: Int[ndarray, "states 256"]
    accepting: Bool[ndarray, " states"]


@lru_cache(maxsize=8)
def compile_expression(expression: str) -> ByteAutomaton:
    """Returns the automaton of a regular expression.

    Raises:
        ConfigurationError: It is no regular expression, uses what outlines-core lacks (look-around,
            references to groups, word boundaries), or matches no text.
    """
    fault = ""  # Rust may accept an expression that Python refuses: `\p{L}`, for example
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(expression)
    except re.error as error:
        fault = f"{shown(expression)} is not a regular expression: {error}"
    if "unbalanced parenthesis" in fault:  # the wrapping could balance it
        raise ConfigurationError(fault)
    nothing = f"no text matches {shown(expression)}; leave out ^ and $: the whole output must match anyway"
    try:
        index = Index(_WRAPPED % expression, _BYTES)
    except ValueError as error:
        if str(error).startswith("Failed to build DFA"):
            nothing = fault or (
                f"{shown(expression)} cannot be used: look-around, references to groups and \\b are not "
                "available; write it without them"
            )
        raise ConfigurationError(nothing) from error
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    state = index.get_initial_state()
    for byte in _OPENING.encode():
        if byte not in transitions[state]:
            raise ConfigurationError(nothing)
        state = transitions[state][byte]
    numbers = {state: 0}  # of the states that the expression itself can reach
    waiting = [state]
    for state in waiting:  # grows
        for byte, following in transitions[state].items():
            if byte != _END_OF_TEXT and following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
    moves = np.full((len(numbers) + 1, 256), len(numbers), dtype=np.int32)
    accepting = np.zeros(len(numbers) + 1, dtype=bool)
    final = index.get_final_states()
    for state, number in numbers.items():
        steps = {byte: numbers[to] for byte, to in transitions[state].items() if byte != _END_OF_TEXT}
        moves[number, list(steps)] = list(steps.values())
        accepting[number] = state in final
    return ByteAutomaton(expression, moves, accepting)
