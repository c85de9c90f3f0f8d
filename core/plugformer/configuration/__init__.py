"""Task configuration: from YAML files and --set to checked settings; every mistake with its place.

Other files in YAML are read in the same way: `read_file` gives a tree of nodes with their origins,
`check_settings` compares it with a form derived from `Settings`, and `report` says what is wrong, and where.
"""

from plugformer.configuration.overrides import (
    merge_layers,
    nested,
    read_dictionary,
    read_overrides,
    read_setting,
)
from plugformer.configuration.resolving import (
    ResolvedTask,
    as_dict,
    check_components,
    dump,
    expand,
    is_file,
    resolve,
    resolve_changed,
    short_name,
)
from plugformer.configuration.structure import check_settings, origin_of
from plugformer.configuration.task import Component, Settings, Task, TrainingSettings
from plugformer.registry.options import checked_options, options_model, shown
from plugformer.yaml_tree import (
    Key,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    dotted,
    plain,
    read_file,
    report,
)

__all__ = [
    "Component",
    "Key",
    "MappingNode",
    "Node",
    "Origin",
    "Problem",
    "ResolvedTask",
    "ScalarNode",
    "Settings",
    "Task",
    "TrainingSettings",
    "as_dict",
    "check_components",
    "check_settings",
    "checked_options",
    "dotted",
    "dump",
    "expand",
    "is_file",
    "merge_layers",
    "nested",
    "options_model",
    "origin_of",
    "plain",
    "read_dictionary",
    "read_file",
    "read_overrides",
    "read_setting",
    "report",
    "resolve",
    "resolve_changed",
    "short_name",
    "shown",
]
