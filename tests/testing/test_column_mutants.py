"""Every check of kinds of columns catches a fault that it is there for."""

from datasets import Value
from tests.testing.mutants import after, before, instead, mutant_tests

from plugformer.registry import Kind
from plugformer_plugins.column.numbers import Number, Numbers
from plugformer_plugins.column.texts import Labels, Text, WordList


def silent(self, cell):
    if isinstance(cell, float):
        return cell
    raise ValueError


MUTANTS = {
    "examples_are_values": (
        instead("OneExample", Number, example=lambda self, draw, along=None: 1.0),
        after("Doubles", Number, read=lambda self, value, cell: 2 * value),
        after("TooFew", Numbers, example=lambda self, value, *_, **__: value[1:]),
    ),
    "values_can_be_stored": (
        instead("Rounds", Number, feature=Value("int64")),
        instead("AsText", WordList, feature=Value("string")),
    ),
    "values_are_read_from_text": (
        before("NumbersOfJSON", Numbers, read=lambda self, cell: cell if isinstance(cell, list) else None),
        before("Commas", Labels, read=lambda self, cell: cell.split(",") if isinstance(cell, str) else cell),
    ),
    "other_cells_are_refused": (
        before("AnyText", Text, read=lambda self, cell: str(cell)),
        instead("Careless", Number, read=lambda self, cell: float(cell)),
        instead("Silent", Number, read=silent),
        instead("Infinite", Number, read=lambda self, cell: float(str(cell))),
    ),
}
test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.COLUMN, raising=("Rounds", "AsText")
)
