"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.fingerprints import fingerprint
    from plugformer.data.preparation import PreparedData, prepare

__all__ = ["PreparedData", "fingerprint", "prepare"]

_MODULES = {"PreparedData": "preparation", "fingerprint": "fingerprints", "prepare": "preparation"}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
