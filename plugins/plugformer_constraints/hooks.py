"""What is done when a task has the key `decoding.pattern`."""

from plugformer.decoding import OutputPattern, TokenAutomaton
from plugformer.hooks import hookimpl, must_not_fail
from plugformer.interfaces import Tokenizer
from plugformer_constraints.pattern import compile_pattern
from plugformer_constraints.spelling import token_automaton


class RegularExpression(OutputPattern):
    """The texts that match a regular expression as a whole; the syntax is that of Rust's `regex`.

    Raises:
        ConfigurationError: It is no regular expression, or none that can be used.
    """

    def __init__(self, expression: str) -> None:
        self._pattern = compile_pattern(expression)

    def automaton(self, tokenizer: Tokenizer, longest: int) -> TokenAutomaton:
        """Returns the sequences of tokens whose text matches."""
        return token_automaton(self._pattern, tokenizer, longest)


@hookimpl
@must_not_fail
def output_pattern(expression: str) -> RegularExpression:
    """Reads any pattern as a regular expression."""
    return RegularExpression(expression)
