"""Task configuration: from YAML files and --set to checked settings; every mistake with its place.

Other files in YAML are read in the same way: `read_file` gives a tree with the origins of its values,
`check_settings` compares it with a form derived from `Settings`, and says what is wrong, and where.
"""

from plugformer.configuration.overrides import (
    merge_layers,
    read_dictionary,
    read_setting,
    setting_keys,
)
from plugformer.configuration.resolving import (
    dump,
    is_file,
    resolve,
    short_name,
    with_manifest,
)
from plugformer.configuration.structure import check_settings, kind_at
from plugformer.configuration.task import Component, ModelSettings, Settings, Task, TrainingSettings
from plugformer.registry.options import options_model, shown
from plugformer.yaml_reader import read_file
from plugformer.yaml_tree import Origin, Tree

__all__ = [
    "Component",
    "ModelSettings",
    "Origin",
    "Settings",
    "Task",
    "TrainingSettings",
    "Tree",
    "check_settings",
    "dump",
    "is_file",
    "kind_at",
    "merge_layers",
    "options_model",
    "read_dictionary",
    "read_file",
    "read_setting",
    "resolve",
    "setting_keys",
    "short_name",
    "shown",
    "with_manifest",
]
