"""Every check of kinds of columns catches a fault that it is there for."""

from datasets import Value
from tests.testing.mutants import after, before, fault_test, instead

from plugformer.registry import Kind
from plugformer_plugins.column.numbers import Number
from plugformer_plugins.column.texts import Labels, Text

MUTANTS = {
    "examples_are_values": after("Doubles", Number, read=lambda self, value, cell: 2 * value),
    "values_can_be_stored": instead("Rounds", Number, feature=Value("int64")),
    "values_are_read_from_text": before(
        "Commas", Labels, read=lambda self, cell: cell.split(",") if isinstance(cell, str) else cell
    ),
    "other_cells_are_refused": before("AnyText", Text, read=lambda self, cell: str(cell)),
}
test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.COLUMN, raising=("Rounds",))
