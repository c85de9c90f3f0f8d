"""Exports are written if their engine gives the scores, outputs and metrics of the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from plugformer.data import EncodedSplit
from plugformer.errors import ConfigurationError, DataError, PlugformerError, described
from plugformer.runs import TrainedModel, replacing
from plugformer_export.comparison import Comparison, Verification
from plugformer_export.engine import ExportError, Format, UnsupportedExport
from plugformer_sharing import model_card

Notify = Callable[[str], None]

RECORD = "verification.json"
"""What the comparison has found, in the folder of an export."""


def verified(
    trained: TrainedModel,
    target: Format,
    out: Path,
    *,
    examples: int = 64,
    agreement: float = 0.0,
    data: Any = None,
    notify: Notify = lambda _: None,
) -> Verification:
    """Writes an export into a new folder, if its engine computes what the model does.

    With the compute type float32 scores must agree within the tolerance, and outputs and metrics be equal;
    an output may differ from that of the run if both are equally probable within the tolerance. Other compute
    types round weights: there each metric must lie within the 95 % interval of the run's.

    Args:
        trained: The model, on the CPU.
        target: The format.
        out: The folder; it must not exist.
        examples: Number of held-out examples, from the shortest to the longest.
        agreement: With another compute type than float32: least share of examples with equal outputs.
        data: Other examples, as in `TrainedModel.evaluate`.
        notify: Receives messages for people.

    Raises:
        ConfigurationError: The folder exists, or a library is missing.
        UnsupportedExport: Parts of the model have no counterpart in the format.
        DataError: No held-out examples can be read.
        RunError: Components have changed since training, and give other answers.
        ExportError: The engine computes something else. No file remains.
    """
    target.require(f"the engine {target.name}")
    if problems := target.problems(trained):
        raise UnsupportedExport(
            "\n".join(f"{problem} has no counterpart in {target.name}" for problem in problems)
        )
    if out.exists():
        raise ConfigurationError(f"{out} exists already; give --out a folder that does not")
    trained.refuse_changes()
    split, rows, name = held_out(trained, examples, data, notify)
    with replacing(out) as folder:
        folder.mkdir(parents=True)
        try:
            target.write(trained, folder)
            comparison = Comparison(trained, target, target.load(trained, folder), split, rows, name)
            result = comparison.result(agreement)
        except (PlugformerError, OSError):
            raise
        except Exception as error:  # those of engines and their converters
            raise ExportError(f"{target.name}: it cannot compute this model ({_reason(error)})") from error
        card = model_card(trained, figures=result.figures, usage=target.usage(trained))
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / RECORD).write_text(json.dumps(result.as_json(), indent=1), encoding="utf-8")
    return result


def _reason(error: BaseException) -> str:
    """Returns on one line what first went wrong, without a converter's advice to its authors."""
    while error.__cause__ is not None:
        error = error.__cause__
    return described(error).partition(" While executing ")[0]  # PyTorch adds the node and a traceback


def held_out(
    trained: TrainedModel, examples: int, data: Any, notify: Notify
) -> tuple[EncodedSplit, list[int], str]:
    """Returns examples from the shortest to the longest, their rows in their split, and its name."""
    names = (None,) if data is not None else ("validation", "test")
    errors: list[DataError] = []
    for name in names:
        try:
            split, read = trained.read(name, data=data, notify=notify)
        except DataError as error:
            errors.append(error)
            continue
        if len(split):
            order = np.argsort(split.lengths.sum(axis=1), kind="stable")
            chosen = np.linspace(0, len(order) - 1, min(examples, len(order))).round().astype(int)
            rows = order[chosen].tolist()
            return split.select(rows), rows, read
        errors.append(DataError(f"the split {read} has no examples"))
    raise DataError(
        "an export is compared with the run on held-out examples, which cannot be read; give others with "
        f"--data FILE\n{errors[0]}"
    ) from errors[0]
