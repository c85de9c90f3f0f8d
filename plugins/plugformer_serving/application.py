"""The paths of a server; who may ask, and how every request ends with a status that fits."""

import time
from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plugformer_cli import record
from plugformer_inspection import inspect_attention
from plugformer_serving.answering import AnswerOptions, Question, ServedModel
from plugformer_serving.bodies import Count, Questions, Record, body_of, read
from plugformer_serving.completions import complete, list_models
from plugformer_serving.description import Operation, about, openapi, questions_type
from plugformer_serving.hugging_face import infer, shape_of
from plugformer_serving.metrics import Metrics
from plugformer_serving.service import Service, json_response

MAX_TOKENS = 64
"""Tokens of either axis that are sent."""

Endpoint = Callable[[Request], Awaitable[Response]]

_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


def application(service: Service, hosts: Collection[str] = ("*",)) -> ASGIApp:
    """Returns the application of a service.

    Args:
        service: The model.
        hosts: Names that it is reached by, such as `localhost`; by default any. A page of another site could
            give 127.0.0.1 a name of its own (DNS rebinding).
    """
    described = operations(service)
    facts, document = about(service), openapi(service, described)
    described += [
        Operation("/about", lambda _: _constant(facts)),
        Operation("/openapi.json", lambda _: _constant(document)),
    ]
    routes = [Route(each.path, _endpoint(service, each), methods=[each.method]) for each in described]
    routes += [Route(path, _file(name, kind), methods=["GET"]) for path, (name, kind) in _PAGE.items()]
    handlers: Any = {HTTPException: _refused, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    trusting = TrustedHostMiddleware(app, [*hosts], www_redirect=False)
    return guarded(trusting, service.metrics, {route.path for route in routes})


def operations(service: Service) -> list[Operation]:
    """Returns what a server does, as it is described in OpenAPI."""
    inputs = questions_type(service)
    parameters = body_of(shape_of(service)[0], "Parameters")
    infer_body = body_of(infer, "InferenceRequest", inputs=inputs, parameters=parameters | None)
    found = [
        Operation("/predict", predict, body_of(predict, "PredictRequest", inputs=inputs), list[Record]),
        Operation("/", infer, infer_body, list[Any]),
        Operation("/health", health),
        Operation("/metrics", metrics, answer=str),
    ]
    if service.has_attention:
        one = questions_type(service, several=False)
        found.append(Operation("/attention", attention, body_of(attention, "AttentionRequest", inputs=one)))
    if service.continues:
        asked = body_of(complete, "CompletionRequest")
        refusals = {"404": "The server has no such model."}
        found += [
            Operation("/v1/completions", complete, asked, refusals=refusals),
            Operation("/v1/models", list_models),
        ]
    return found


def _endpoint(service: Service, operation: Operation) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        values = await read(request, operation.request, service.limits) if operation.request else {}
        found = await operation.handle(service, **values)
        return found if isinstance(found, Response) else json_response(found)

    return endpoint


async def _constant(value: Any) -> Any:
    return value


async def predict(
    service: Service, *, inputs: Questions, n_best: Count = 1, probabilities: bool = False
) -> list[dict[str, Any]]:
    """What `plugformer predict --json` prints of each text."""
    questions = inputs if isinstance(inputs, list) else [inputs]
    answers = await service.answer(questions, AnswerOptions(n_best=n_best, probabilities=probabilities))
    return [record(*pair) for pair in zip(questions, answers, strict=True)]


async def attention(service: Service, *, inputs: Questions) -> dict[str, Any]:
    """The weights of each attention, for one text."""
    if isinstance(inputs, list):
        raise HTTPException(400, "inputs takes one text")
    await service.check_size([inputs])
    return await service.result_of(service.worker.call(lambda model: attention_maps(model, inputs)))


def attention_maps(model: ServedModel, question: Question) -> dict[str, Any]:
    """Returns a model's answer to a question with the weights of each attention that has some.

    Each map has the tokens that read (`query`), those that are read (`key`), and `weights` by head: lists of
    rows with three decimals.
    """
    inspection = inspect_attention(model, question)
    maps = []
    for view in inspection.attentions:
        if view.weights is None:
            continue
        stack, layer, kind = view.place
        weights = view.weights[:, :MAX_TOKENS, :MAX_TOKENS]
        maps.append(
            {
                "name": f"{stack} {kind}-attention, layer {layer}",
                "query": view.query[:MAX_TOKENS],
                "key": view.key[:MAX_TOKENS],
                "weights": [
                    [[round(weight, 3) for weight in row] for row in head] for head in weights.tolist()
                ],
            }
        )
    return {"input": question, "output": inspection.output, "maps": maps}


async def health(_: Service) -> dict[str, str]:
    """Whether the server answers."""
    return {"status": "ok"}


async def metrics(service: Service) -> Response:
    """Counts for Prometheus."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _file(name: str, kind: str) -> Endpoint:
    content = files("plugformer_serving").joinpath("page", name).read_bytes()

    async def file(_: Request) -> Response:
        """Returns a file of the page."""
        return Response(content, headers={"cache-control": "no-cache"}, media_type=kind)

    return file


async def _refused(_: Request, error: HTTPException) -> Response:
    return json_response({"error": error.detail}, error.status_code, error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    """Answers where the server has failed; the traceback is for who runs it."""
    return json_response({"error": f"the server has failed: {type(error).__name__}"}, 500)


HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def guarded(app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> ASGIApp:
    """Returns an application that refuses requests which pages of other origins have sent.

    A page of another site can make a browser send requests here; their Origin is not the Host. No answer
    allows other origins to read it (CORS), but that alone would not keep the model from computing.

    Args:
        app: What answers.
        metrics: Counts requests.
        paths: Paths whose requests are counted by name.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        answering = app
        if origin not in (None, f"http://{host}", f"https://{host}"):  # a proxy may end TLS
            reason = (
                f"requests of pages from {origin[:80]!r} are not answered, only of those from {host[:80]!r}"
            )
            answering = json_response({"error": reason}, 403)
        try:
            await answering(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in paths else "other"
            metrics.requests.labels(path, status).inc()
            metrics.seconds.observe(time.monotonic() - began)

    return answer
