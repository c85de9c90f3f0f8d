"""Tests of faulty constraints: a check catches each."""

import torch
from tests.testing.mutants import mutant_tests

from plugformer.interfaces import END, AllowedTokens, Constraint
from plugformer.registry import Kind


def of(name, tokens):
    """Returns a constraint whose outputs begin with such tokens."""
    return type(name, (Constraint,), {"compile": lambda self, tokenizer, shortest, longest: tokens})


class Pairs(AllowedTokens):
    """Outputs of an even number of tokens, where the most may be odd."""

    def mask(self, log_probabilities):
        masked = super().mask(log_probabilities)
        if self.length % 2:
            masked[:, END] = -torch.inf
        return masked


class OneMore(AllowedTokens):
    def __init__(self, least, most):
        super().__init__(least, most + 1)


class Louder(AllowedTokens):
    def mask(self, log_probabilities):
        return super().mask(log_probabilities) + 1.0


class Everything(AllowedTokens):
    def mask(self, log_probabilities):
        return log_probabilities


class OtherThanBefore(AllowedTokens):
    """Forbids each row's last token."""

    last = None

    def mask(self, log_probabilities):
        masked = super().mask(log_probabilities)
        return masked if self.last is None else self.without(masked)

    def without(self, masked):
        return masked.scatter(1, self.last[:, None], -torch.inf)  # `select` leaves them where they were

    def extend(self, tokens):
        super().extend(tokens)
        self.last = tokens


class OtherThanAnyRow(OtherThanBefore):
    def without(self, masked):
        masked[:, self.last] = -torch.inf
        return masked


MUTANTS = {
    "it_only_forbids": (of("ChangesScores", Louder), of("AllowsPadding", Everything)),
    "every_output_can_end": (of("CannotEnd", Pairs), of("EndsTooLate", OneMore)),
    "rows_are_independent": (of("MovesNothing", OtherThanBefore), of("MixesRows", OtherThanAnyRow)),
}

test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.CONSTRAINT)
