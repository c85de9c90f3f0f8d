"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.arrow_files import on_disk
    from plugformer.data.encoding import EncodedSplit
    from plugformer.data.fingerprints import fingerprint
    from plugformer.data.preparation import PreparedData, prepare
    from plugformer.data.read_count import ReadCount
    from plugformer.data.text_file import check_file, open_bytes, read_lines
    from plugformer.data.tokenizing import encode
    from plugformer.data.vocabularies import Vocabularies

__all__ = [
    "EncodedSplit",
    "PreparedData",
    "ReadCount",
    "Vocabularies",
    "check_file",
    "encode",
    "fingerprint",
    "on_disk",
    "open_bytes",
    "prepare",
    "read_lines",
]

_MODULES = {
    "EncodedSplit": "encoding",
    "PreparedData": "preparation",
    "ReadCount": "read_count",
    "Vocabularies": "vocabularies",
    "check_file": "text_file",
    "encode": "tokenizing",
    "fingerprint": "fingerprints",
    "on_disk": "arrow_files",
    "open_bytes": "text_file",
    "prepare": "preparation",
    "read_lines": "text_file",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
