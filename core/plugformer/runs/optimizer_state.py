"""The state of an optimizer or a hook as tensors by name and JSON, whatever it keeps."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from plugformer.errors import RunError


def split_tensors(value: object, name: str) -> tuple[Any, dict[str, Tensor]]:
    """Takes the tensors out of nested mappings and sequences.

    Args:
        value: Mappings, lists, tuples, tensors, numbers, texts, truth values and None.
        name: What the names of the tensors begin with.

    Returns:
        The value as JSON holds it, with the names of tensors in their places, and the tensors.

    Raises:
        RunError: Something else is in it.
    """
    tensors: dict[str, Tensor] = {}

    def record(part: object, path: str) -> object:
        match part:
            case Tensor():
                tensors[path] = part.detach().contiguous()
                return {"tensor": path}
            case Mapping():
                pairs = [[record(key, path), record(item, f"{path}/{key}")] for key, item in part.items()]
                return {"mapping": pairs}
            case tuple():
                return {"tuple": [record(item, f"{path}/{index}") for index, item in enumerate(part)]}
            case list():
                return [record(item, f"{path}/{index}") for index, item in enumerate(part)]
            case None | bool() | int() | float() | str():
                return part
        raise RunError(
            f"{path} of the {name.partition(' ')[0]}'s state is a {type(part).__name__}, which a checkpoint "
            "cannot hold: expected tensors, numbers, texts, and lists, tuples and mappings of them; correct "
            f"the {name}"
        )

    return record(value, name), tensors


def join_tensors(record: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns what `split_tensors` was given.

    Raises:
        KeyError: A tensor is missing.
    """
    match record:
        case list():
            return [join_tensors(item, tensors) for item in record]
        case {"tensor": name}:
            return tensors[name].clone()
        case {"tuple": items}:
            return tuple(join_tensors(item, tensors) for item in items)
        case {"mapping": pairs}:
            return {join_tensors(key, tensors): join_tensors(item, tensors) for key, item in pairs}
    return record
