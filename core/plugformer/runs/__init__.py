"""Runs on disk: their files, checkpoints and lockfiles. Nothing that is read here is executed."""

from plugformer.runs.directory import RunDirectory, is_being_trained, located
from plugformer.runs.loading import TrainedModel, read_processor
from plugformer.runs.lockfile import provenance
from plugformer.runs.store import (
    load_tensors,
    own_tensors,
    read_json,
    refuse_links,
    replacing,
    save_tensors,
)

__all__ = [
    "RunDirectory",
    "TrainedModel",
    "is_being_trained",
    "load_tensors",
    "located",
    "own_tensors",
    "provenance",
    "read_json",
    "read_processor",
    "refuse_links",
    "replacing",
    "save_tensors",
]
