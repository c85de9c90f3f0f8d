"""Tests of faulty constraints: a check catches each."""

import torch
from tests.testing.mutants import fault_test

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


class OtherThanBefore(AllowedTokens):
    """Forbids each row's last token; `select` leaves them where they were."""

    last = None

    def mask(self, log_probabilities):
        masked = super().mask(log_probabilities)
        return masked if self.last is None else masked.scatter(1, self.last[:, None], -torch.inf)

    def extend(self, tokens):
        super().extend(tokens)
        self.last = tokens


class Everything(AllowedTokens):
    def mask(self, log_probabilities):
        return log_probabilities


MUTANTS = {
    "it_only_forbids": of("AllowsPadding", Everything),
    "every_output_can_end": of("CannotEnd", Pairs),
    "rows_are_independent": of("MovesNothing", OtherThanBefore),
}

test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.CONSTRAINT)
