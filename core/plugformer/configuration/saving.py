"""From settings to a file that reads back as the same settings."""

from typing import Any

import yaml
from pydantic import BaseModel

from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.yaml_reader import resolve_scalar


def dump(task: Task) -> str:
    """Returns the task as YAML, complete except for what says nothing (an absent setting that is absent)."""
    return yaml.dump(_plain(task), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.2 would read as something else, and writes nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class decides by value)
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        # Unprintable characters are escaped: PyYAML would fold some line breaks, such as U+0085, into spaces.
        is_ambiguous = resolve_scalar(text) != text or not text.isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_ambiguous else None)


_Dumper.add_representer(str, _Dumper.text)


def _plain(value: Any) -> Any:
    """Returns settings as a file has them: without absent ones, and overrides that override nothing."""
    if isinstance(value, TokenizerSettings) and value.source == value.target:
        run = {} if value.run is None else {"run": value.run}
        return {**_plain(value.source), "shared": value.shared, **run}
    if isinstance(value, BaseModel):
        written = {}
        for key, field in type(value).model_fields.items():
            plain = _plain(item := getattr(value, key))
            if not (item == field.default and plain in (None, {}, [], "")):
                written[field.alias or key] = plain
        if isinstance(value, Component):
            return {**({"name": value.name} if value.name else {}), **value.options, **written}
        return written
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
