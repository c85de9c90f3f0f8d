"""`model.initialize_from`: weights that decide settings of a task, which then need not be written."""

from collections.abc import Callable, Mapping
from typing import Any

from plugformer.configuration.overrides import merge_layers, read_dictionary
from plugformer.errors import ConfigurationError
from plugformer.registry import Kind, Registry
from plugformer.yaml_tree import Finding, KeyPath, Problem, Tree, placed, report

_PATH = ("model", "initialize_from")


def with_weights(
    layers: list[Tree], registry: Registry, absolute: Callable[[Tree, KeyPath], Any]
) -> list[Tree]:
    """Returns layers with what `model.initialize_from` decides, and the hook that loads the weights.

    `{x: ..., OPTIONS}` means the hook `initialize_from_x`; see `plugformer.interfaces.Hook.decided`.
    """
    merged = merge_layers(layers)
    if not isinstance(block := merged.get(_PATH), dict):
        return layers
    with placed(merged.origin(_PATH), _PATH):
        options = {str(key): absolute(merged, (*_PATH, key)) for key in block}
        name = f"{_PATH[1]}_{next(iter(options))}"
        written = merge_layers(layers[1:]).value
        file, decided, defaults = registry.create(Kind.HOOK, name, **options).decided(written)
    findings: list[Finding] = []
    rest = _rest(decided, written, (), findings)
    if findings:
        raise ConfigurationError(
            report(Problem(merged.origin(path), path, words) for path, words in findings)
        )
    hooks = [{"name": name, **options}, *(merged.get(("training", "hooks")) or [])]
    last = {"model": {_PATH[1]: None}, "training": {"hooks": hooks}}
    read = (read_dictionary(tree, file, registry)[0] for tree in (defaults, rest, last))
    return [layers[0], next(read), *layers[1:], *read]


def _rest(decided: Mapping[str, Any], written: Any, path: KeyPath, findings: list[Finding]) -> dict[str, Any]:
    """Returns decided settings, of written components without the names; finds those that are others."""
    block = {"name": written} if isinstance(written, str) else written or {}
    rest: dict[str, Any] = {}
    for key, value in decided.items():
        other = block.get(key)
        if isinstance(value, Mapping):
            rest[key] = _rest(value, other, (*path, key), findings)
        elif key != "name" or other is None:
            rest[key] = value
        if other is not None and not isinstance(value, Mapping) and other != value:
            findings.append(((*path, key), f"{other!r}, where the weights have {value!r}; take it out"))
    for key, inner in block.items():
        if path[:1] == _PATH[:1] and (key in ("encoder", "decoder", "per_layer") or isinstance(key, int)):
            _rest(dict(decided) if key not in decided else {}, inner, (*path, key), findings)
    return rest
