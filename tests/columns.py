"""The columns that the two oldest types of task ask data for, and what data give in them."""

from collections.abc import Sequence
from dataclasses import replace

from datasets import DatasetDict

from plugformer.interfaces import Column
from plugformer.registry import Registry
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence

REGISTRY = Registry.built_in()


def with_kinds(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Returns columns as data receive them."""
    return tuple(replace(column, kind=REGISTRY.create("column", column.holds)) for column in columns)


PAIRS = with_kinds(SequenceToSequence().columns)
LABELS = with_kinds(Classification().columns)


def asked_for(splits: DatasetDict, columns: Sequence[Column]) -> DatasetDict:
    """Returns examples with the columns that a task asks for, without the places where they stand."""
    names = [column.name for column in columns]
    return DatasetDict(
        {
            name: split.select_columns([each for each in names if each in split.column_names])
            for name, split in splits.items()
        }
    )
