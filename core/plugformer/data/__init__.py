"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.data.processor import Processor, require_aligned
from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.arrow import limited, on_disk, with_numbers
    from plugformer.data.preparation import PreparedData, TextSplits, prepare
    from plugformer.data.splitting import refuse_other_classes
else:  # they import datasets, which predictions do not need
    __getattr__ = lazily(
        {
            "plugformer.data.arrow": ("limited", "on_disk", "with_numbers"),
            "plugformer.data.preparation": ("PreparedData", "TextSplits", "prepare"),
            "plugformer.data.splitting": ("refuse_other_classes",),
        }
    )

__all__ = [
    "EncodedSplit",
    "Ladder",
    "PlannedBatch",
    "PreparedData",
    "Processor",
    "SplitStats",
    "TextSplits",
    "limited",
    "on_disk",
    "prepare",
    "refuse_other_classes",
    "require_aligned",
    "with_numbers",
]
