"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats, check_file, fingerprint, open_bytes, read_lines
from plugformer.data.processor import Processor
from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.arrow import encode, encoded_examples, on_disk
    from plugformer.data.preparation import PreparedData, prepare
else:  # they import datasets, which predictions do not need
    __getattr__ = lazily(
        {
            "plugformer.data.arrow": ("encode", "encoded_examples", "on_disk"),
            "plugformer.data.preparation": ("PreparedData", "prepare"),
        }
    )

__all__ = [
    "EncodedSplit",
    "PreparedData",
    "Processor",
    "SplitStats",
    "check_file",
    "encode",
    "encoded_examples",
    "fingerprint",
    "on_disk",
    "open_bytes",
    "prepare",
    "read_lines",
]
