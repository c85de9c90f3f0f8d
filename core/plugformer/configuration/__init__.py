"""Task configuration: from YAML files and --set to checked settings; every mistake with its place.

Other files in YAML are read in the same way: `read_file` gives a tree of nodes with their origins,
`check_settings` compares it with a form derived from `Settings`, and says what is wrong, and where.
"""

from plugformer.configuration.overrides import (
    merge_layers,
    nested,
    read_dictionary,
    read_setting,
)
from plugformer.configuration.resolving import (
    dump,
    is_file,
    resolve,
    short_name,
    with_manifest,
)
from plugformer.configuration.structure import check_settings
from plugformer.configuration.task import Component, ModelSettings, Settings, Task, TrainingSettings
from plugformer.registry.options import options_model, shown
from plugformer.yaml_tree import (
    MappingNode,
    Origin,
    ScalarNode,
    plain,
    read_file,
)

__all__ = [
    "Component",
    "MappingNode",
    "ModelSettings",
    "Origin",
    "ScalarNode",
    "Settings",
    "Task",
    "TrainingSettings",
    "check_settings",
    "dump",
    "is_file",
    "merge_layers",
    "nested",
    "options_model",
    "plain",
    "read_dictionary",
    "read_file",
    "read_setting",
    "resolve",
    "short_name",
    "shown",
    "with_manifest",
]
