"""What is done when a task has the key `decoding.pattern`."""

from plugformer.decoding import OutputPattern, TokenAutomaton
from plugformer.errors import needing
from plugformer.hooks import hookimpl, must_not_fail
from plugformer.interfaces import Tokenizer


class RegularExpression(OutputPattern):
    """The texts that match a regular expression as a whole; the syntax is that of Rust's `regex`.

    Raises:
        ConfigurationError: It is no regular expression, or none that can be used; or outlines-core is not
            installed.
    """

    def __init__(self, expression: str) -> None:
        with needing("patterns", "decoding.pattern"):
            from plugformer_constraints.pattern import compile_pattern
        self._pattern = compile_pattern(expression)

    def automaton(self, tokenizer: Tokenizer, longest: int) -> TokenAutomaton:
        """Returns the sequences of tokens whose text matches."""
        from plugformer_constraints.spelling import token_automaton

        return token_automaton(self._pattern, tokenizer, longest)


@hookimpl
@must_not_fail
def output_pattern(expression: str) -> RegularExpression:
    """Reads any pattern as a regular expression."""
    return RegularExpression(expression)
