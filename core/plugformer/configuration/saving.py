"""Writing a task as a file that reads back as the same task."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.yaml_tree import plain, read_mapping, resolve_scalar


def dump(task: Task) -> str:
    """Returns the task as YAML, complete except for what says nothing (an absent setting that is absent)."""
    return yaml.dump(_plain(task), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def as_dict(task: Task) -> dict[str, Any]:
    """Returns the content of what `dump` writes: mappings, lists, texts and numbers."""
    tree: dict[str, Any] = plain(read_mapping(dump(task).encode(), "task", Path()))
    return tree


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.2 would read as something else, and writes nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class decides by value)
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Unprintable characters are escaped: PyYAML would fold some line breaks, such as U+0085, into spaces.
    ambiguous = resolve_scalar(text) != text or not text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if ambiguous else None)


_Dumper.add_representer(str, _text)


def _plain(value: Any) -> Any:
    if isinstance(value, TokenizerSettings) and value.source == value.target:
        own = {"shared": value.shared} if value.run is None else {"shared": value.shared, "run": value.run}
        return {**_plain(value.source), **own}
    if isinstance(value, Component):
        core = {key: item for key, item in _settings(value).items() if key != "name"}
        return {"name": value.name, **value.options, **core}
    if isinstance(value, BaseModel):
        return _settings(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _settings(value: BaseModel) -> dict[str, Any]:
    """Returns a model's fields, without absent settings, and overrides that override nothing."""
    written = {}
    for key, field in type(value).model_fields.items():
        item = getattr(value, key)
        plain = _plain(item)
        if not (item == field.default and plain in (None, {}, [])):
            written[field.alias or key] = plain
    return written
