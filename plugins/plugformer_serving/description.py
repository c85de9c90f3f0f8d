"""What a server says about its model: for the page, and as OpenAPI."""

import random
from typing import Any

from plugformer import __version__
from plugformer.interfaces import Column
from plugformer_serving.reading import MOST_OUTPUTS
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
    optional = {part.name for part in service.task_type.inputs if part.optional}
    return [each.name for each in input_columns(service) if not each.optional and each.name not in optional]


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
        "most_outputs": MOST_OUTPUTS,
    }


def openapi(service: Service) -> dict[str, Any]:
    """Returns the description of the paths in OpenAPI 3.1, with the columns of the task."""
    question = {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": column_schemas(service),
                "required": required_columns(service),
            },
        ]
    }
    output: dict[str, Any] = {"description": "The output; null if there is an error."}
    answer = {
        "type": "object",
        "properties": {
            "input": question,
            "output": output,
            "score": {"type": ["number", "null"], "description": "Natural logarithm of the probability."},
            "error": {"type": "string"},
            "truncated": {"type": "boolean"},
            "unknown": {"type": "array", "items": {"type": "string"}},
            "alternatives": {"type": "array", "items": {"type": "object"}},
            "probabilities": {"description": "Of all classes, or of those of each word."},
        },
        "required": ["input", "output"],
    }
    inputs = {"anyOf": [*question["anyOf"], {"type": "array", "items": question}]}
    count = {"type": "integer", "minimum": 1, "maximum": MOST_OUTPUTS, "default": 1}
    flag = {"type": "boolean", "default": False}
    paths = {
        "/predict": _post(
            "What `plugformer predict --json` prints of each text.",
            {"inputs": inputs, "n_best": count, "probabilities": flag},
            ["inputs"],
            {"type": "array", "items": answer},
        ),
        "/": _post(
            "The request and answer of Hugging Face's inference API.",
            {"inputs": {}, "parameters": {"type": "object"}},
            ["inputs"],
            {"type": "array"},
        ),
        "/health": _get("Whether the model answers.", "application/json"),
        "/metrics": _get("Counts for Prometheus.", "text/plain"),
    }
    if service.has_attention:
        paths["/attention"] = _post(
            "The weights of each attention, for one text.",
            {"inputs": question},
            ["inputs"],
            {"type": "object"},
        )
    if service.continues:
        text, number = {"type": "string"}, {"type": "number"}
        properties = {
            "model": text,
            "prompt": {"anyOf": [text, {"type": "array", "items": text}]},
            "max_tokens": {"type": "integer", "minimum": 1},
            "n": count,
            "stop": {"anyOf": [text, {"type": "array", "items": text}]},
            "stream": flag,
            "temperature": number,
            "top_p": number,
            "seed": {"type": "integer"},
            "echo": flag,
        }
        answered = {"type": "object"}
        paths["/v1/completions"] = _post("OpenAI's completions.", properties, ["prompt"], answered)
        paths["/v1/models"] = _get("The model's name, as OpenAI lists models.", "application/json")
    info = {"title": service.name, "description": service.trained.task.description, "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


_STATUSES = {
    "400": "The request is wrong; `error` says why.",
    "413": "The request is too large.",
    "415": "The content type is not application/json.",
    "503": "Too many texts wait.",
    "504": "There was no answer in time.",
}


def _post(
    summary: str, properties: dict[str, Any], required: list[str], answer: dict[str, Any]
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    responses = {
        status: {"description": text, "content": {"application/json": {"schema": error}}}
        for status, text in _STATUSES.items()
    }
    good = {"description": "The answer.", "content": {"application/json": {"schema": answer}}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"post": {"summary": summary, "requestBody": body, "responses": {"200": good, **responses}}}


def _get(summary: str, kind: str) -> dict[str, Any]:
    return {
        "get": {"summary": summary, "responses": {"200": {"description": summary, "content": {kind: {}}}}}
    }
