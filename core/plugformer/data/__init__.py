"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.data.processor import Processor, iterate_rows, require_aligned
from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.arrow import on_disk
    from plugformer.data.preparation import PreparedData, prepare
else:  # they import datasets, which predictions do not need
    __getattr__ = lazily(
        {
            "plugformer.data.arrow": ("on_disk",),
            "plugformer.data.preparation": ("PreparedData", "prepare"),
        }
    )

__all__ = [
    "EncodedSplit",
    "Ladder",
    "PlannedBatch",
    "PreparedData",
    "Processor",
    "SplitStats",
    "iterate_rows",
    "on_disk",
    "prepare",
    "require_aligned",
]
