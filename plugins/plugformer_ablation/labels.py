"""How values of settings are called in names, tables and remarks."""

from typing import Any

import yaml


def label(value: Any) -> str:
    """Returns a value in a few characters, as a table shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = [f"{key}={label(item)}" for key, item in value.items() if key != "name"]
        return f"{value['name']}({', '.join(options)})" if options else str(value["name"])
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
