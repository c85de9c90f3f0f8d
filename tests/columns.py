"""The columns that the two oldest types of task ask data for."""

from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence

PAIRS = SequenceToSequence().columns
LABELS = Classification().columns
