"""What a server says about its model: for the page, and as OpenAPI."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import TypeAdapter, WithJsonSchema

from plugformer import __version__
from plugformer.interfaces import Column
from plugformer_serving.bodies import MAX_OUTPUTS, Body, Questions
from plugformer_serving.service import Service


def schema_of(value: Any) -> dict[str, Any]:
    """Returns the JSON Schema of values like one."""
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0] if value else "")}
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: schema_of(part) for name, part in value.items()}}
    return {"type": "number"}


def input_columns(service: Service) -> list[Column]:
    """Returns the columns that questions have: the inputs, or the text that is continued."""
    columns = list(service.trained.experiment.columns)
    return [column for column in columns if column.role == "input"] or columns[:1]


def column_schemas(service: Service) -> dict[str, dict[str, Any]]:
    """Returns the JSON Schema of each column of a question, by the examples of its kind."""
    examples: dict[str | None, Any] = {}
    draw = random.Random(1)  # noqa: S311 (an example)
    for column in input_columns(service):
        examples[column.name] = column.kind.example(draw, examples.get(column.along))
    return {str(name): schema_of(example) for name, example in examples.items()}


def required_columns(service: Service) -> list[str]:
    """Returns the names of the columns that every question has."""
    return [column.name for column in input_columns(service) if not column.optional]


def about(service: Service) -> dict[str, Any]:
    """Returns what the page builds its form from."""
    task = service.trained.task
    parameters = sum(parameter.numel() for parameter in service.trained.model.parameters())
    required = required_columns(service)
    return {
        "run": service.name,
        "description": task.description,
        "facts": [task.type.name, task.model.architecture.name, f"{parameters:,} parameters"],
        "columns": [
            {"name": name, "required": name in required, **schema}
            for name, schema in column_schemas(service).items()
        ],
        "classes": service.classes,
        "probabilities": service.has_probabilities,
        "alternatives": service.generates or len(service.classes) > 1,
        "attention": service.has_attention,
        "continues": service.continues,
        "finds": service.finds,
        "most_outputs": MAX_OUTPUTS,
    }


@dataclass(frozen=True)
class Operation:
    """What a server does at a path.

    Attributes:
        path: The path.
        handle: Answers, given the service and the body by name. Its docstring is the summary.
        request: What is asked, in the body of a POST; nothing if it is None, by GET.
        answer: What the answer is.
        refusals: What statuses of this path alone mean, by number.
    """

    path: str
    handle: Callable[..., Awaitable[Any]]
    request: type[Body] | None = None
    answer: Any = dict[str, Any]
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return "GET" if self.request is None else "POST"


def questions_type(service: Service, *, several: bool = True) -> Any:
    """Returns the type of a text, an object with the columns of the task, and perhaps a list of these."""
    columns = {"type": "object", "properties": column_schemas(service), "required": required_columns(service)}
    one: dict[str, Any] = {"anyOf": [{"type": "string"}, columns]}
    many = [{"type": "array", "items": one}] if several else []
    return Annotated[Questions, WithJsonSchema({"anyOf": [*one["anyOf"], *many]})]


def openapi(service: Service, operations: Iterable[Operation]) -> dict[str, Any]:
    """Returns the description of operations in OpenAPI 3.1."""
    types: list[Any] = []
    for each in operations:
        types.append((each.path, "serialization", TypeAdapter(each.answer)))
        if each.request is not None:
            types.append((each.path, "validation", TypeAdapter(each.request)))
    schemas, shared = TypeAdapter.json_schemas(types, ref_template="#/components/schemas/{model}")
    paths: dict[str, Any] = {}
    for each in operations:
        kind = "text/plain" if each.answer is str else "application/json"
        good = _content(schemas[each.path, "serialization"], kind) | {"description": "The answer."}
        described: dict[str, Any] = {"summary": (each.handle.__doc__ or "").partition("\n")[0]}
        refusals = {"403": "A page of another origin has asked.", **each.refusals}
        if each.request is not None:
            described["requestBody"] = _content(schemas[each.path, "validation"]) | {"required": True}
            refusals |= _STATUSES
        bad = {status: _content(_ERROR) | {"description": refusals[status]} for status in sorted(refusals)}
        described["responses"] = {"200": good, **bad}
        paths[each.path] = {each.method.lower(): described}
    info = {"title": service.name, "description": service.trained.task.description, "version": __version__}
    components = {"schemas": shared.get("$defs", {})}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}
_STATUSES = {
    "400": "The request is wrong; `error` says why.",
    "408": "The body did not arrive in time.",
    "413": "The request is too large.",
    "415": "The content type is not application/json.",
    "500": "The server has failed.",
    "503": "Too many texts wait.",
    "504": "There was no answer in time.",
}


def _content(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}}
