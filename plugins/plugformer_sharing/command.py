"""`plugformer push`: publishes a run on the Hugging Face Hub or in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from plugformer.errors import ConfigurationError
from plugformer_cli import AsJson, LocalManifest, RunPath, load_run, print_json

EXAMPLES = (
    "plugformer push runs/dates-20260102-120000 my-name/dates --license apache-2.0 --language en",
    "plugformer push runs/dates-20260102-120000 my-name/dates --dry-run",
    "plugformer push runs/dates-20260102-120000 --to published",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The repository on the Hub: OWNER/NAME.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write into a new folder instead; no network.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Others cannot see the repository if it is created.")
    ] = False,
    license_: Annotated[
        str, typer.Option("--license", metavar="ID", help="The model's license, such as apache-2.0.")
    ] = "",
    languages: Annotated[
        list[str] | None,
        typer.Option("--language", metavar="CODE", help="A language, such as de; repeatable."),
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Also publish checkpoints, to resume the training.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be published; no network.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Publish a run on the Hugging Face Hub, or in a folder.

    Publishes the parameters as safetensors, the vocabularies, the task, the log and the results as JSON and
    YAML, and a model card. Absolute paths become names of files. Log in once with `hf auth login`, or set
    HF_TOKEN. Others then run `plugformer predict hub:NAME`.
    """
    if (name is None) == (to is None):
        raise ConfigurationError("give NAME, the repository on the Hub, or --to DIR, a folder: one of them")
    from plugformer_sharing.publishing import publication, push, write

    trained = load_run(ctx, run, None, "cpu", registry)
    place = str(to or f"hub:{name}")
    named = to.name if to is not None else place
    files = publication(trained, named, license=license_, languages=languages or (), checkpoints=checkpoints)
    for path, short in files.shortened.items():
        typer.echo(f"{path} is published as {short}", err=True)
    if not dry_run and to is not None:
        write(files, to)
    elif not dry_run and name is not None:
        typer.echo(push(files, name, private=private), err=True)
    if as_json:
        print_json({"place": place, "files": files.sizes, "shortened": files.shortened})
        return
    for path, size in files.sizes.items():
        typer.echo(f"{size:12,}  {path}")
    typer.echo(f"{'would be ' * dry_run}published as {place}", err=True)
