"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.encoding import EncodedSplit
    from plugformer.data.fingerprints import fingerprint
    from plugformer.data.preparation import PreparedData, prepare
    from plugformer.data.tokenizing import encode
    from plugformer.data.vocabularies import Vocabularies

__all__ = ["EncodedSplit", "PreparedData", "Vocabularies", "encode", "fingerprint", "prepare"]

_MODULES = {
    "EncodedSplit": "encoding",
    "PreparedData": "preparation",
    "Vocabularies": "vocabularies",
    "encode": "tokenizing",
    "fingerprint": "fingerprints",
    "prepare": "preparation",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
