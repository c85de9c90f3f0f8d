"""`plugformer serve`: a trained model behind HTTP."""

import contextlib
import itertools
import logging
from typing import Annotated

import typer

from plugformer.errors import needing
from plugformer_cli import (
    AsJson,
    Device,
    EngineName,
    LocalManifest,
    RunPath,
    RunSettings,
    load_run,
    print_json,
)
from plugformer_serving.limits import ServerLimits

EXAMPLES = (
    "plugformer serve runs/dates-20260102-120000",
    "plugformer serve runs/dates-20260102-120000 --port 9000 --set decoding.name=beam",
    "plugformer serve runs/dates-20260102-120000 --host 0.0.0.0 --allow-host models.example.org",
)

_DEFAULT = ServerLimits()


def command(
    ctx: typer.Context,
    run: RunPath,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen at; 0.0.0.0 for all networks.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that the server is reached by; repeatable."),
    ] = None,
    body: Annotated[
        int, typer.Option("--max-body", metavar="BYTES", min=1, help="Size of a request at most.")
    ] = _DEFAULT.body,
    items: Annotated[
        int, typer.Option("--max-items", metavar="N", min=1, help="Texts of a request and of a batch.")
    ] = _DEFAULT.items,
    tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="Tokens of a request, or of a completion.")
    ] = _DEFAULT.tokens,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time for an answer at most.")
    ] = _DEFAULT.seconds,
    queue: Annotated[
        int, typer.Option("--queue", metavar="N", min=1, help="Texts that may wait; more are refused.")
    ] = _DEFAULT.queue,
    settings: RunSettings = None,
    device: Device = None,
    engine: EngineName = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Answer over HTTP with a trained model, and serve a page to try it.

    POST /predict takes {"inputs": TEXT}, an object of columns, or a list of these, and returns what
    `plugformer predict --json` prints. There are also the request shapes of Hugging Face (POST /) and, for
    models that continue texts, of OpenAI (/v1/completions), /health, /metrics and /openapi.json. Requests
    that arrive together share a batch. A browser finds a page to try the model at /.

    It listens on this machine alone, and then answers only requests for localhost; --allow-host adds names.
    SIGTERM and Ctrl-C end it when accepted requests are answered. With --json it prints its address as JSON.
    """
    with needing("serve", "`plugformer serve`"):
        from plugformer_serving.application import application
        from plugformer_serving.server import address, bind, leave_core, only_local, serve
    from plugformer_serving.service import Service

    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    full = itertools.count()  # asyncio says at every attempt that no file is free for a connection
    logging.getLogger("asyncio").addFilter(lambda it: "system resource" not in str(it.msg) or not next(full))
    limits = ServerLimits(body, items, tokens, seconds, queue)
    with contextlib.closing(bind(host, port)) as listening:
        leave_core()
        trained = load_run(ctx, run, settings, device, registry, engine)
        service = Service(trained, limits)
        local = ["localhost", "127.0.0.1", "[::1]", host] if only_local(listening) else []
        app = application(service, [*local, *(allow_host or ())] or ["*"])
        url = address(listening)  # connections wait there from now on
        typer.echo(f"serving {run} at {url}; Ctrl-C ends", err=True)
        if as_json:
            print_json({"run": str(run), "url": url})
        try:
            serve(app, listening, seconds=seconds)
        finally:
            service.worker.stop()
