"""The paths of a server, and how every request ends with a status that fits."""

from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from plugformer_cli import record
from plugformer_serving.answering import Manner
from plugformer_serving.attention_maps import attention_maps
from plugformer_serving.completions import complete, list_models
from plugformer_serving.description import Operation, about, openapi, question_type
from plugformer_serving.guard import Guard
from plugformer_serving.hugging_face import infer, shape_of
from plugformer_serving.limits import Refused
from plugformer_serving.reading import check_count, read_object
from plugformer_serving.schemas import AnyQuestion, Count, Record, body_of, validated
from plugformer_serving.service import Service, json_response

Endpoint = Callable[[Request], Awaitable[Response]]

_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


def application(service: Service, hosts: Collection[str] = ()) -> ASGIApp:
    """Returns the application of a service.

    Args:
        service: The model.
        hosts: Names that it is reached by, such as `localhost`; any name if there are none.
    """
    described = operations(service)
    routes = [
        Route(each.path, _endpoint(service, each), methods=[each.method])
        for each in (
            *described,
            _constant("/about", about(service)),
            _constant("/openapi.json", openapi(service, described)),
        )
    ]
    routes += [Route(path, _file(name, kind), methods=["GET"]) for path, (name, kind) in _PAGE.items()]
    handlers: Any = {Refused: _refused, HTTPException: _missing, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, hosts, service.metrics, {route.path for route in routes})


def operations(service: Service) -> list[Operation]:
    """Returns what a server does, as it is described in OpenAPI."""
    question = question_type(service)
    inputs: Any = question | list[question]  # type: ignore[valid-type]  # made of the task's columns
    parameters = body_of(shape_of(service)[0], "Parameters")
    infer_body = body_of(infer, "InferenceRequest", inputs=inputs, parameters=parameters | None)
    found = [
        Operation("/predict", predict, body_of(predict, "PredictRequest", inputs=inputs), list[Record]),
        Operation("/", infer, infer_body, list[Any]),
        Operation("/health", health),
        Operation("/metrics", metrics, answer=str),
    ]
    if service.has_attention:
        found.append(
            Operation("/attention", attention, body_of(attention, "AttentionRequest", inputs=question))
        )
    if service.continues:
        asked = body_of(complete, "CompletionRequest")
        found += [Operation("/v1/completions", complete, asked), Operation("/v1/models", list_models)]
    return found


def _endpoint(service: Service, operation: Operation) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if operation.request is None:
            found = await operation.handle(service)
        else:
            body = await read_object(request, service.limits)
            found = await operation.handle(service, **validated(operation.request, body))
        return found if isinstance(found, Response) else json_response(found)

    return endpoint


def _constant(path: str, value: Any) -> Operation:
    async def constant(_: Service) -> Any:
        return value

    return Operation(path, constant)


async def predict(
    service: Service,
    *,
    inputs: AnyQuestion | list[AnyQuestion],
    n_best: Count = 1,
    probabilities: bool = False,
) -> list[dict[str, Any]]:
    """What `plugformer predict --json` prints of each text."""
    questions = check_count(inputs, service.limits)
    answers = await service.answer(questions, Manner(n_best=n_best, probabilities=probabilities))
    return [record(*pair) for pair in zip(questions, answers, strict=True)]


async def attention(service: Service, *, inputs: AnyQuestion) -> dict[str, Any]:
    """The weights of each attention, for one text."""
    await service.check_tokens([inputs])
    return await service.waited(service.worker.call(lambda model: attention_maps(model, inputs)))


async def health(service: Service) -> Response:
    """Whether the model answers."""
    alive = service.worker.alive
    return json_response({"status": "ok" if alive else "failed"}, 200 if alive else 503)


async def metrics(service: Service) -> Response:
    """Counts for Prometheus."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _file(name: str, kind: str) -> Endpoint:
    content = files("plugformer_serving").joinpath("page", name).read_bytes()

    async def file(_: Request) -> Response:
        """Returns a file of the page."""
        return Response(content, headers={"cache-control": "no-cache"}, media_type=kind)

    return file


async def _refused(_: Request, error: Refused) -> Response:
    return json_response({"error": error.reason}, error.status, error.headers)


async def _missing(request: Request, error: HTTPException) -> Response:
    """Answers requests for a path or method that there is not."""
    reasons = {404: "there is no {path}", 405: "{path} does not take the method {method}"}
    reason = reasons.get(error.status_code, error.detail)
    reason = reason.format(path=request.url.path[:80], method=request.method[:20])
    return json_response({"error": reason}, error.status_code, dict(error.headers or {}))


async def _failed(_: Request, error: Exception) -> Response:
    """Answers where the server has failed; the traceback is for who runs it."""
    return json_response({"error": f"the server has failed: {type(error).__name__}"}, 500)
