"""Runs on disk: their files, checkpoints and locks. Nothing here trains; nothing read here is executed."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.runs.directory import RunDirectory
    from plugformer.runs.files import refuse_links, replacing
    from plugformer.runs.generators import generator_states
    from plugformer.runs.history import History, read_history
    from plugformer.runs.loading import TrainedModel
    from plugformer.runs.weights import own_tensors

__all__ = [
    "History",
    "RunDirectory",
    "TrainedModel",
    "generator_states",
    "own_tensors",
    "read_history",
    "refuse_links",
    "replacing",
]

_MODULES = {
    "History": "history",
    "RunDirectory": "directory",
    "TrainedModel": "loading",
    "generator_states": "generators",
    "own_tensors": "weights",
    "read_history": "history",
    "refuse_links": "files",
    "replacing": "files",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
