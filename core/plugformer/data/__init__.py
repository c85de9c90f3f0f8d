"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.arrow import encode, encoded_examples, limited, on_disk, with_numbers
    from plugformer.data.encoding import EncodedSplit
    from plugformer.data.files import SplitStats, check_file, fingerprint, open_bytes, read_lines
    from plugformer.data.preparation import PreparedData, TextSplits, prepare
    from plugformer.data.processor import Processor
    from plugformer.data.splitting import refuse_other_classes

__all__ = [
    "EncodedSplit",
    "PreparedData",
    "Processor",
    "SplitStats",
    "TextSplits",
    "check_file",
    "encode",
    "encoded_examples",
    "fingerprint",
    "limited",
    "on_disk",
    "open_bytes",
    "prepare",
    "read_lines",
    "refuse_other_classes",
    "with_numbers",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
