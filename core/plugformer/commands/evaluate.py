"""`plugformer evaluate`: the metrics of a trained model on one split."""

import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plugformer.commands.parameters import AsJson, Device, LocalManifest, RunPath, RunSettings, installed
from plugformer.commands.printing import print_device, print_report, print_self_check
from plugformer.errors import ConfigurationError

if TYPE_CHECKING:
    from plugformer.runs.loading import TrainedModel

EXAMPLES = (
    "plugformer evaluate runs/dates-20260102-120000 --split validation",
    "plugformer evaluate runs/dates-20260102-120000 --self-check",
    "plugformer evaluate runs/dates-20260102-120000 --set decoding.name=beam",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="A split of the task's data; test if not given.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Other examples in the form of the task's own; twice for parallel files, source first.",
        ),
    ] = None,
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Check the model on a few validation examples instead.")
    ] = False,
    settings: RunSettings = None,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Measure a trained model on its data or on others.

    Reads the task's data again, or the files that --data names, and prints every metric with its 95 %
    confidence interval. --set changes settings of data, decoding and evaluation; nothing is written into the
    run.

    --self-check repeats what every training ends with: answers in a batch against one by one, cached decoding
    against uncached, and so on. The exit status is 1 if two ways to compute the same differ.
    """
    from plugformer.runs.loading import load
    from plugformer.runs.requirements import ANSWERING, EVALUATING

    if sum(map(bool, (split, data, self_check))) > 1:
        raise ConfigurationError("--split, --data and --self-check exclude each other: give one")
    kinds = ANSWERING if self_check else EVALUATING
    model = load(run, installed(ctx, registry), overrides=settings or [], kinds=kinds, device=device)
    print_device(model)
    if self_check:
        _check(model, as_json=as_json)
    else:
        notify = partial(typer.echo, err=True)
        with redirect_stdout(sys.stderr):  # what components print is no result
            report = model.evaluate(split or "test", data=data or None, notify=notify)
        print_report(report, as_json=as_json)


def _check(model: "TrainedModel", *, as_json: bool) -> None:
    check = model.check_itself()
    if as_json:
        typer.echo(json.dumps(check.as_json(), ensure_ascii=False))
    else:
        print_self_check(check, model.directory, model.registry.arguments)
    if not check.passed:
        raise typer.Exit(1)
