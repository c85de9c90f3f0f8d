"""Runs on disk: their files, checkpoints and locks. Nothing that is read here is executed."""

from plugformer.runs.checkpoint import Stateful, TrainingProgress
from plugformer.runs.directory import RunDirectory, is_trained, located
from plugformer.runs.loading import TrainedModel
from plugformer.runs.lock import made_of
from plugformer.runs.store import (
    load_tensors,
    own_tensors,
    read_file,
    read_json,
    refuse_links,
    replacing,
    replacing_folder,
    save_tensors,
)

__all__ = [
    "RunDirectory",
    "Stateful",
    "TrainedModel",
    "TrainingProgress",
    "is_trained",
    "load_tensors",
    "located",
    "made_of",
    "own_tensors",
    "read_file",
    "read_json",
    "refuse_links",
    "replacing",
    "replacing_folder",
    "save_tensors",
]
