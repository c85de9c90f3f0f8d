"""The paths of a server, and how every request ends with a status that fits."""

from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from plugformer_cli import record
from plugformer_serving.answering import Manner
from plugformer_serving.attention_maps import attention_maps
from plugformer_serving.completions import completions, models
from plugformer_serving.description import about, openapi
from plugformer_serving.guard import Guard
from plugformer_serving.hugging_face import hugging_face
from plugformer_serving.limits import Refused
from plugformer_serving.reading import (
    MOST_OUTPUTS,
    check_names,
    read_count,
    read_flag,
    read_object,
    read_questions,
)
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
    routes = [
        Route("/predict", _predict(service), methods=["POST"]),
        Route("/", hugging_face(service), methods=["POST"]),
        Route("/about", _constant(about(service)), methods=["GET"]),
        Route("/openapi.json", _constant(openapi(service)), methods=["GET"]),
        Route("/health", _health(service), methods=["GET"]),
        Route("/metrics", _metrics(service), methods=["GET"]),
    ]
    routes += [Route(path, _file(name, kind), methods=["GET"]) for path, (name, kind) in _PAGE.items()]
    if service.has_attention:
        routes.append(Route("/attention", _attention(service), methods=["POST"]))
    if service.continues:
        routes += [
            Route("/v1/completions", completions(service), methods=["POST"]),
            Route("/v1/models", models(service), methods=["GET"]),
        ]
    handlers: Any = {Refused: _refused, HTTPException: _missing, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, hosts, service.metrics, {route.path for route in routes})


def _predict(service: Service) -> Endpoint:
    async def predict(request: Request) -> Response:
        """Answers texts with the records that `plugformer predict --json` prints."""
        body = await read_object(request, service.limits)
        check_names(body, ("inputs", "n_best", "probabilities"))
        if "inputs" not in body:
            raise Refused(400, 'the body has no "inputs"; send {"inputs": TEXT}')
        questions = read_questions(body["inputs"], service.limits)
        manner = Manner(
            n_best=read_count(body.get("n_best", 1), "n_best", MOST_OUTPUTS),
            probabilities=read_flag(body.get("probabilities", False), "probabilities"),
        )
        answers = await service.answer(questions, manner)
        return json_response([record(*pair) for pair in zip(questions, answers, strict=True)])

    return predict


def _attention(service: Service) -> Endpoint:
    async def attention(request: Request) -> Response:
        """Returns the attention weights of one text."""
        body = await read_object(request, service.limits)
        check_names(body, ("inputs",))
        questions = read_questions(body.get("inputs"), service.limits)
        if len(questions) != 1:
            raise Refused(400, f"inputs has {len(questions)} texts; attention is that of one")
        await service.check_tokens(questions)
        maps = service.worker.call(lambda model: attention_maps(model, questions[0]))
        return json_response(await service.waited(maps))

    return attention


def _constant(value: Any) -> Endpoint:
    async def constant(_: Request) -> Response:
        """Returns a description that does not change."""
        return json_response(value)

    return constant


def _file(name: str, kind: str) -> Endpoint:
    content = files("plugformer_serving").joinpath("page", name).read_bytes()

    async def file(_: Request) -> Response:
        """Returns a file of the page."""
        return Response(content, headers={"cache-control": "no-cache"}, media_type=kind)

    return file


def _health(service: Service) -> Endpoint:
    async def health(_: Request) -> Response:
        """Says whether the model answers."""
        alive = service.worker.alive
        return json_response({"status": "ok" if alive else "failed"}, 200 if alive else 503)

    return health


def _metrics(service: Service) -> Endpoint:
    async def metrics(_: Request) -> Response:
        """Returns counts for Prometheus."""
        text = service.metrics.text(service.worker.waiting)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return metrics


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
