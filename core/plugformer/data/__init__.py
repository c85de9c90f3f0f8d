"""From a source of examples to numbered rows and batches."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.data.preparation import prepare

__all__ = ["prepare"]

_MODULES = {"prepare": "preparation"}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
